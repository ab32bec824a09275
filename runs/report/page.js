'use strict';
/* Draws the page from the JSON that lies in it. Text becomes text nodes and attributes, never
 * markup, so a name can hold anything. */
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const page = document.getElementById('page');
  const colours = ['#2f7ed8', '#d9822b', '#3a9d6a', '#b0529c', '#c0504d', '#7a6fc2', '#8a8d3a', '#3aa6a6'];

  // --- making elements ---
  function put(element, children) {
    for (const child of children.flat(9))
      if (child !== null && child !== undefined && child !== '') element.append(child);
    return element;
  }
  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const key in attributes || {})
      if (key === 'style') element.style.cssText = attributes[key];
      else if (key.startsWith('on')) element.addEventListener(key.slice(2), attributes[key]);
      else if (attributes[key] !== null && attributes[key] !== false) element.setAttribute(key, attributes[key]);
    return put(element, children);
  }
  function draw(tag, attributes, text) {
    const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  }
  const section = (title, about, ...rest) =>
    make('section', null, make('h2', null, title), about ? make('p', { class: 'soft small' }, about) : '', rest);

  // --- numbers as people read them ---
  /* Beyond this a chart cannot be drawn to scale. */
  const known = (x) => typeof x === 'number' && Math.abs(x) < 1e200;
  const whole = (x) => (known(x) ? Math.round(x).toLocaleString('en') : '–');
  const share = (x, digits = 1) => (known(x) ? (100 * x).toFixed(digits) + ' %' : '–');
  function short(x) {
    if (!known(x)) return '–';
    const size = Math.abs(x);
    if (size === 0) return '0';
    if (size >= 1e9) return +(x / 1e9).toPrecision(3) + ' G';
    if (size >= 1e6) return +(x / 1e6).toPrecision(3) + ' M';
    if (size >= 1e4) return +(x / 1e3).toPrecision(3) + ' k';
    if (size < 1e-3) return x.toExponential(1);
    return String(+x.toPrecision(size >= 100 ? 4 : 3));
  }
  const bytes = (x) => (known(x) ? (x >= 1e9 ? +(x / 1e9).toPrecision(3) + ' GB' : +(x / 1e6).toPrecision(3) + ' MB') : '–');
  function duration(s) {
    if (!known(s)) return '–';
    if (s < 10) return s.toFixed(1) + ' s';
    if (s < 60) return Math.round(s) + ' s';
    const parts = [Math.floor(s / 86400), Math.floor((s % 86400) / 3600), Math.floor((s % 3600) / 60), Math.floor(s % 60)];
    const two = (x) => String(x).padStart(2, '0');
    if (parts[0]) return `${parts[0]} d ${two(parts[1])}:${two(parts[2])}`;
    return parts[1] ? `${parts[1]}:${two(parts[2])}:${two(parts[3])}` : `${parts[2]}:${two(parts[3])}`;
  }
  const roughly = (s) => (s < 7200 ? `${Math.round(s / 60)} minutes` : s < 172800 ? `${Math.round(s / 3600)} hours` : `${Math.round(s / 86400)} days`);
  const titles = {
    plate_accuracy: 'plates read whole', char_accuracy: 'characters read', top1: 'top-1', top5: 'top-5',
    loss: 'loss', val_loss: 'loss of the evaluation', lr: 'learning rate', images_per_s: 'images a second',
    wait: 'waiting for images', device_memory_bytes: 'memory', device_busy: 'busy', device_power_w: 'power, W',
    device_frequency_mhz: 'frequency, MHz', loss_scale: 'loss scale', skipped_steps: 'skipped steps',
  };
  const title_of = (key) => (key.startsWith('ema_') ? title_of(key.slice(4)) + ', moving average' : titles[key]) || key.replaceAll('_', ' ');

  // --- the record ---
  function read_run(run, index) {
    run.colour = colours[index] || `hsl(${Math.round(index * 137.5) % 360}, 55%, ${index % 2 ? 38 : 52}%)`;
    run.shown = true;
    run.facts = run.facts || {};
    if (run.killed) run.facts.state = 'killed';
    run.training = [];
    run.evaluations = [];
    run.rollbacks = [];
    for (const line of (run.metrics || '').split('\n')) {
      let record = null;
      try { record = JSON.parse(line); } catch { continue; }
      if (!record || !known(record.step)) continue;
      ('rolled_back_to' in record ? run.rollbacks : 'val_loss' in record ? run.evaluations : run.training).push(record);
    }
    delete run.metrics;
    /* The record may be younger than the facts, which are of the page before. */
    const last = [...run.training.slice(-1), ...run.evaluations.slice(-1)];
    const newest = (key) => Math.max(...[run.facts, ...last].map((from) => from[key]).filter(known));
    run.step = newest('step');
    run.seconds = Math.max(newest('time'), known(run.facts.seconds) ? run.facts.seconds : 0);
  }

  // --- curves ---
  const view = { axis: 'step', range: null, smooth: true, charts: [] };
  const axis_values = {
    step: { label: 'step', of: (r) => r.step, show: whole },
    epoch: { label: 'epoch', of: (r, run) => (run.facts.epoch_steps ? r.step / run.facts.epoch_steps : r.epoch), show: (x) => short(x) },
    time: { label: 'time trained', of: (r) => r.time, show: duration },
  };

  /* Ticks at round numbers. */
  function ticks(low, high, count) {
    const span = high - low || 1, raw = span / count, power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 5, 10].find((m) => m * power >= raw) * power;
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + span * 1e-9; i++) found.push(+(i * step).toPrecision(12));
    return found;
  }
  function log_ticks(low, high) {
    const found = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++)
      for (const m of high / low < 100 ? [1, 2, 5] : [1]) if (m * 10 ** e >= low && m * 10 ** e <= high) found.push(m * 10 ** e);
    return found.length > 1 ? found : ticks(low, high, 4).filter((x) => x > 0);
  }

  /* What a chart shows: lines of [x, y], each of a run. */
  function lines_of(chart) {
    const axis = axis_values[view.axis], lines = [];
    for (const run of data.runs.filter((run) => run.shown))
      for (const series of chart.series) {
        const points = (series.evaluation ? run.evaluations : run.training)
          .map((r) => [axis.of(r, run), r[series.key]]).filter((p) => known(p[0]) && known(p[1]));
        if (points.length) lines.push({ run, series, points });
      }
    return lines;
  }
  /* A mean around each point, to both sides so that it does not lag; of many, a hundredth of them counts. */
  function smoothed(points) {
    const keep = Math.exp(-100 / Math.max(points.length, 1));
    const means = (list) => {
      let sum = 0, weight = 0;
      return list.map(([, y]) => {
        sum = keep * sum + (1 - keep) * y;
        weight = keep * weight + (1 - keep);
        return sum / weight;
      });
    };
    const before = means(points), after = means([...points].reverse()).reverse();
    return points.map(([x], i) => [x, (before[i] + after[i]) / 2]);
  }

  function new_chart(title, series, options = {}) {
    const chart = { title, series, log: !!options.log, show: options.show || short, unit: options };
    chart.lines = lines_of(chart);
    if (!chart.lines.length) return null;
    chart.svg = draw('svg', { role: 'img', 'aria-label': title });
    chart.read = make('div', { class: 'read' });
    const scale = options.positive
      ? make('button', { type: 'button', onclick: () => { chart.log = !chart.log; render(chart); } }, '') : null;
    chart.scale = scale;
    chart.card = make('div', { class: 'card chart' }, make('h3', null, title, scale), chart.svg, chart.read);
    watch(chart);
    view.charts.push(chart);
    return chart.card;
  }

  /* The charts' lines along an axis, and all of it that they take. */
  function lay_out(axis) {
    view.axis = axis;
    for (const chart of view.charts) chart.lines = lines_of(chart);
    view.whole = [0, 0];
    const see = (x) => { if (known(x)) view.whole = [Math.min(view.whole[0], x), Math.max(view.whole[1], x)]; };
    for (const chart of view.charts)
      for (const line of chart.lines)
        for (const [x] of line.points) see(x);
    for (const run of data.runs || []) for (const back of run.rollbacks) see(axis_values[axis].of(back, run));
  }
  function extent(chart) {
    const lines = chart.lines;
    let [low, high] = view.range || view.whole;
    if (low === high) { low -= 0.5; high += 0.5; }
    const ys = [];
    for (const line of lines)
      for (const [x, y] of line.points) if (x >= low && x <= high) ys.push(y);
    ys.sort((a, b) => a - b);
    let bottom = ys.length ? ys[0] : 0, top = ys.length ? ys[ys.length - 1] : 1;
    if (chart.unit.share) { top = Math.min(1, top + 0.02); bottom = Math.max(0, bottom - 0.02); if (!view.range && bottom < 0.5) bottom = 0; }
    else if (!chart.log && bottom > 0 && (chart.unit.zero || bottom < top * 0.5)) bottom = 0;
    if (bottom === top) { bottom -= Math.abs(bottom) * 0.1 || 0.5; top += Math.abs(top) * 0.1 || 0.5; if (chart.unit.share) { bottom = Math.max(0, bottom); } }
    if (chart.log) { const least = ys.find((y) => y > 0) || 1e-6; bottom = Math.max(least, bottom) * 0.95; top = Math.max(top * 1.05, bottom * 1.1); }
    return { low, high, bottom, top };
  }

  function render(chart) {
    const box = chart.svg.getBoundingClientRect();
    const width = Math.max(box.width, 200), height = Math.max(box.height, 160);
    const left = 46, right = 8, above = 8, below = 22;
    const lines = chart.lines;
    const e = extent(chart);
    const to_y = chart.log ? Math.log10 : (y) => y;
    const x_of = (x) => left + ((x - e.low) / (e.high - e.low)) * (width - left - right);
    const y_of = (y) => height - below - ((to_y(Math.max(y, chart.log ? e.bottom : y)) - to_y(e.bottom)) / (to_y(e.top) - to_y(e.bottom) || 1)) * (height - above - below);
    Object.assign(chart, { x_of, y_of, left, width, right, e, height, below, above });
    chart.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    chart.svg.replaceChildren();
    const axis = axis_values[view.axis];
    const levels = chart.log ? log_ticks(e.bottom, e.top) : ticks(e.bottom, e.top, 4);
    let names = levels.map((y) => (chart.unit.share ? +(100 * y).toFixed(2) + ' %' : chart.show(y)));
    if (new Set(names).size < names.length) names = levels.map((y) => String(+y.toPrecision(5)));
    levels.forEach((y, i) => {
      chart.svg.append(draw('line', { class: 'grid', x1: left, x2: width - right, y1: y_of(y), y2: y_of(y) }));
      chart.svg.append(draw('text', { x: left - 6, y: y_of(y) + 4, 'text-anchor': 'end' }, names[i]));
    });
    const places = ticks(e.low, e.high, width < 420 ? 3 : 5).filter((x) => view.axis !== 'step' || Number.isInteger(x));
    for (const x of places)
      chart.svg.append(draw('text', { x: Math.min(Math.max(x_of(x), left + 4), width - right - 14), y: height - 6, 'text-anchor': 'middle' }, axis.show(x)));
    chart.svg.append(draw('line', { class: 'axis', x1: left, x2: width - right, y1: height - below, y2: height - below }));
    const clip = 'clip' + view.charts.indexOf(chart);
    const area = draw('clipPath', { id: clip });
    area.append(draw('rect', { x: left, y: 0, width: width - left - right, height: height - below + 2 }));
    chart.svg.append(area);
    const group = draw('g', { 'clip-path': `url(#${clip})` });
    const path = (points) => points.map(([x, y], i) => (i ? 'L' : 'M') + x_of(x).toFixed(1) + ' ' + y_of(y).toFixed(1)).join('');
    for (const run of data.runs.filter((run) => run.shown))
      for (const back of run.rollbacks) {
        const x = axis.of(back, run);
        if (!known(x) || x < e.low || x > e.high) continue;
        const mark = draw('line', { class: 'rollback', x1: x_of(x), x2: x_of(x), y1: above, y2: height - below });
        mark.append(draw('title', {}, `${run.name}: step ${whole(back.step)} failed; back to step ${whole(back.rolled_back_to)}, on at ${short(back.lr_factor)} of the rate`));
        group.append(mark);
      }
    lines.forEach((line) => {
      line.colour = data.runs.length > 1 ? line.run.colour : line.series.colour || colours[chart.series.indexOf(line.series) % colours.length];
      const style = { stroke: line.colour, 'stroke-dasharray': data.runs.length > 1 && chart.series.indexOf(line.series) ? '5 3' : 'none' };
      const noisy = line.series.noisy && view.smooth && line.points.length > 60;
      /* Of many runs the noise would hide what they mean. */
      if (noisy && lines.length <= 6) group.append(draw('path', { d: path(line.points), class: 'raw', ...style }));
      group.append(draw('path', { d: path(noisy ? smoothed(line.points) : line.points), ...style }));
      if (line.points.length <= 60)
        for (const [x, y] of line.points) group.append(draw('circle', { cx: x_of(x), cy: y_of(y), r: line.points.length > 1 ? 2 : 3.5, fill: line.colour }));
    });
    chart.svg.append(group);
    chart.marks = draw('g', {});
    chart.svg.append(chart.marks);
    if (chart.scale) chart.scale.textContent = chart.log ? 'linear' : 'logarithmic';
    show_values(chart, null);
  }

  function nearest(points, x) {
    let low = 0, high = points.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (points[middle][0] < x) low = middle; else high = middle; }
    return Math.abs(points[low][0] - x) <= Math.abs(points[high][0] - x) ? points[low] : points[high];
  }
  /* The values at a place below the chart, or the last ones. */
  function show_values(chart, x) {
    const items = chart.lines.map((line) => {
      const point = x === null ? line.points[line.points.length - 1] : nearest(line.points, x);
      const label = (data.runs.length > 1 ? line.run.name + (chart.series.length > 1 ? ' ' : '') : '') +
        (chart.series.length > 1 || data.runs.length === 1 ? line.series.label || title_of(line.series.key) : '');
      return { line, point, label };
    });
    chart.marks.replaceChildren();
    if (x !== null) {
      chart.marks.append(draw('line', { class: 'cursor', x1: chart.x_of(x), x2: chart.x_of(x), y1: chart.above, y2: chart.height - chart.below }));
      for (const { line, point } of items)
        if (point[0] >= chart.e.low && point[0] <= chart.e.high)
          chart.marks.append(draw('circle', { cx: chart.x_of(point[0]), cy: chart.y_of(point[1]), r: 3.5, fill: line.colour }));
    }
    chart.read.replaceChildren(
      x === null ? '' : make('span', null, axis_values[view.axis].label + ' ' + axis_values[view.axis].show(items.length ? items[0].point[0] : x) + '  '),
      ...items.map(({ line, point, label }) => make('span', { style: 'margin-right:12px' },
        make('span', { class: 'dot', style: `background:${line.colour}` }), label + ' ' + chart.show(point[1]))));
  }

  function zoom_to(range) {
    view.range = range;
    view.charts.forEach(render);
    view.reset.disabled = !range;
  }
  /* Hovering shows the values at one place in all charts; dragging zooms all of them. */
  function watch(chart) {
    let from = null;
    const place = (event) => {
      const box = chart.svg.getBoundingClientRect();
      const part = ((event.clientX - box.left) * (chart.width / box.width) - chart.left) / (chart.width - chart.left - chart.right);
      return chart.e.low + Math.min(1, Math.max(0, part)) * (chart.e.high - chart.e.low);
    };
    const leave = () => { from = null; view.charts.forEach((other) => show_values(other, null)); };
    chart.svg.addEventListener('pointerdown', (event) => { from = place(event); try { chart.svg.setPointerCapture(event.pointerId); } catch { } });
    chart.svg.addEventListener('pointermove', (event) => {
      const x = place(event);
      view.charts.forEach((other) => show_values(other, x));
      if (from !== null)
        chart.marks.prepend(draw('rect', {
          class: 'brush', x: Math.min(chart.x_of(from), chart.x_of(x)), y: chart.above,
          width: Math.abs(chart.x_of(x) - chart.x_of(from)), height: chart.height - chart.above - chart.below,
        }));
    });
    chart.svg.addEventListener('pointerup', (event) => {
      const to = place(event), began = from;
      from = null;
      if (began !== null && Math.abs(chart.x_of(to) - chart.x_of(began)) > 12) zoom_to([Math.min(began, to), Math.max(began, to)]);
    });
    chart.svg.addEventListener('pointercancel', leave);
    chart.svg.addEventListener('pointerleave', leave);
    chart.svg.addEventListener('dblclick', () => zoom_to(null));
  }

  function curves() {
    const keys = (list) => new Set(data.runs.flatMap((run) => run[list].flatMap((record) => Object.keys(record))));
    const trained = keys('training'), evaluated = keys('evaluations');
    const several = data.runs.length > 1;
    /* Of several runs the figure that says which is better, of each kind of network. */
    const deciding = new Set(data.runs.flatMap((run) => (run.best && run.best.figures.length ? [run.best.figures[0][0]] : [])));
    const cards = [
      new_chart('Loss',
        [{ key: 'loss', label: 'training', noisy: true }, { key: 'val_loss', label: 'evaluation', evaluation: true }, { key: 'ema_val_loss', label: 'moving average', evaluation: true }], { log: true, positive: true }),
      new_chart('Accuracy', ['plate_accuracy', 'top1', 'ema_plate_accuracy', 'ema_top1', 'char_accuracy', 'top5', 'ema_char_accuracy', 'ema_top5']
        .filter((key) => evaluated.has(key) && (!several || deciding.has(key))).map((key) => ({ key, evaluation: true })), { share: true, show: share }),
      new_chart('Learning rate', [{ key: 'lr' }]),
      new_chart('Images a second', [{ key: 'images_per_s', label: 'images/s', noisy: true }], { zero: true }),
      new_chart('Waiting for images', [{ key: 'wait', label: 'of the time', noisy: true }], { share: true, show: share }),
      new_chart('Memory', [{ key: 'device_memory_bytes', label: 'in use' }], { show: bytes, zero: true }),
      new_chart('Busy', [{ key: 'device_busy', label: 'of the time', noisy: true }], { share: true, show: share }),
      new_chart('Power', [{ key: 'device_power_w', label: 'W', noisy: true }]),
      new_chart('Frequency', [{ key: 'device_frequency_mhz', label: 'MHz' }]),
      new_chart('Temperature', [{ key: 'device_temperature_c', label: 'degrees Celsius' }]),
      new_chart('Loss scale', [{ key: 'loss_scale' }], { log: true, positive: true }),
    ];
    /* What the record says beside these. */
    const drawn = new Set(['step', 'epoch', 'time', 'images', 'correct', 'ema_images', 'ema_correct', 'device_memory_peak_bytes', 'device_energy_joules', 'skipped_steps',
      ...view.charts.flatMap((chart) => chart.series.map((series) => series.key))]);
    for (const [set, evaluation] of [[trained, false], [evaluated, true]])
      for (const key of set) if (!drawn.has(key) && !titles[key] && !key.endsWith('_source')) cards.push(new_chart(title_of(key), [{ key, evaluation, noisy: !evaluation }]));
    if (!view.charts.length) return section('Curves', 'Nothing is recorded yet.');
    const choice = make('select', { 'aria-label': 'along', onchange: (event) => { lay_out(event.target.value); zoom_to(null); } },
      Object.keys(axis_values).map((key) => make('option', { value: key }, axis_values[key].label)));
    view.reset = make('button', { type: 'button', disabled: true, onclick: () => zoom_to(null) }, 'whole run');
    const smooth = make('input', { type: 'checkbox', checked: true, onchange: (event) => { view.smooth = event.target.checked; view.charts.forEach(render); } });
    return make('section', null, make('h2', null, 'Curves'),
      make('div', { class: 'bar-tools' }, make('label', null, 'along', choice), make('label', null, smooth, 'smooth'), view.reset,
        make('span', { class: 'soft' }, 'Drag over a chart to look closer; double-click for all of it.')),
      make('div', { class: 'charts' }, cards));
  }

  // --- a run's head ---
  const figure = (value, about) => make('div', { class: 'card figure' }, make('b', null, value), make('span', null, about));
  function state_of(run) {
    const f = run.facts;
    if (typeof f.state !== 'string') return '';
    const when = known(f.written) ? new Date(1000 * f.written).toLocaleString('sv').slice(0, 16) : '';
    const part = known(f.steps) && f.steps ? ` (${share(run.step / f.steps, 0)})` : '';
    const stands = `step ${whole(run.step)} of ${whole(f.steps)}${part}`;
    if (f.state === 'done') return make('span', { class: 'state' }, `done, ${when}`);
    if (f.state.startsWith('done: ')) return make('span', { class: 'state' }, `${stands}, ${when}: ${f.state}`);
    if (f.state !== 'running') return make('span', { class: 'state bad' }, `${stands}, ${when}: ${f.state}`);
    /* A run that was killed in the night leaves this page as it was. */
    const age = Date.now() / 1000 - f.written;
    const old = age > 1800 ? ` (${roughly(age)} ago; xtrain report says whether it still runs)` : '';
    return make('span', { class: 'state' }, `${stands}, as of ${when}${old}`);
  }
  /* A running run rewrites its page. The box's text is in the address, so it stays. */
  let reload = 0;
  function again() {
    if (!data.runs.some((run) => run.facts.state === 'running')) return '';
    const box = make('input', { type: 'checkbox', onchange: () => { location.hash = box.checked ? 'again' : ''; start(); } });
    const start = () => { clearTimeout(reload); if (box.checked) reload = setTimeout(() => location.reload(), 60000); };
    box.checked = location.hash === '#again';
    start();
    return make('label', { class: 'state again' }, box, 'load again each minute');
  }
  function head(run) {
    const f = run.facts, cards = [];
    const key = run.best && run.best.figures.length ? run.best.figures[0][0] : null;
    if (key) {
      cards.push(figure(share(run.best.figures[0][1], 2), `best ${title_of(key)}, ${run.best.step ? 'step ' + whole(run.best.step) : 'as given'}`));
      if (run.last.step !== run.best.step) cards.push(figure(share(run.last.figures[0][1], 2), `last, step ${whole(run.last.step)}`));
    }
    const last = run.training[run.training.length - 1];
    if (last) cards.push(figure(short(last.loss), 'loss of the last steps'));
    if (known(f.seconds)) cards.push(figure(duration(run.seconds), f.epoch_steps && run.step > 0 ? `trained, ${duration((run.seconds * f.epoch_steps) / run.step)} an epoch` : 'trained'));
    const left = f.steps - run.step;
    if (f.state === 'running' && run.step > 0 && left > 0) cards.push(figure(duration((run.seconds / run.step) * left), 'left'));
    if (known(run.images_per_s)) cards.push(figure(whole(run.images_per_s), 'images a second'));
    if (known(f.energy_joules)) cards.push(figure(short(f.energy_joules / 3600) + ' Wh', 'energy'));
    return [
      f.model ? make('p', { class: 'soft small name' }, `${f.model} on ${f.data}`, f.val ? `, evaluated on ${f.val}` : '', make('br'), `${f.device}, ${f.type}, ${whole(f.batch)} images a step`) : '',
      cards.length ? make('div', { class: 'figures' }, cards) : ''];
  }

  // --- where the time went ---
  function time_spent(run) {
    const f = run.facts;
    if (!known(f.seconds) || f.seconds <= 0) return '';
    const rest = Math.max(0, f.seconds - (f.loading_seconds || 0) - (f.evaluation_seconds || 0));
    const parts = [['training', rest, '#3a9d6a'], ['evaluation', f.evaluation_seconds, '#2f7ed8'],
      ['waiting for images', f.loading_seconds, '#d9822b'], ['start', f.start_seconds, '#8c8f94']].filter((p) => known(p[1]));
    const all = parts.reduce((sum, p) => sum + p[1], 0);
    return make('div', { class: 'card' }, make('h3', null, 'Time'),
      make('div', { class: 'spent' }, parts.map(([name, s, colour]) => make('i', { style: `width:${(100 * s) / all}%;background:${colour}`, title: name }))),
      make('div', { class: 'legend' }, parts.map(([name, s, colour]) =>
        make('span', null, make('i', { class: 'dot', style: `background:${colour}` }), `${name} ${duration(s)} (${share(s / all)})`))),
      make('p', { class: 'soft small', style: 'margin:8px 0 0' }, known(f.energy_joules) ? `Energy: ${short(f.energy_joules / 3600)} Wh${f.energy_source ? ` (${f.energy_source})` : ''}.` : 'Energy: not measured.'));
  }
  function slowest(run) {
    const ops = run.facts.ops;
    if (!ops || !ops.length) return '';
    const most = Math.max(...ops.map((op) => op.forward_ms + op.backward_ms));
    return make('div', { class: 'card' }, make('h3', null, 'The slowest ops of a step'),
      make('div', { class: 'wide' }, make('table', null,
        make('thead', null, make('tr', null, make('th', null, 'op'), make('th', { class: 'n' }, 'fwd ms'), make('th', { class: 'n' }, 'bwd ms'), make('th', { class: 'n' }, 'of all'), make('th', { class: 'meter' }))),
        make('tbody', null, ops.map((op) => make('tr', null,
          make('td', { class: 'op', title: op.kind }, op.name),
          make('td', { class: 'n' }, op.forward_ms.toFixed(2)), make('td', { class: 'n' }, op.backward_ms.toFixed(2)),
          make('td', { class: 'n' }, share((op.forward_ms + op.backward_ms) / run.facts.ops_ms)),
          make('td', { class: 'meter' }, make('i', { style: `width:${(90 * op.forward_ms) / most}%` }), make('i', { style: `width:${(90 * op.backward_ms) / most}%` }))))))));
  }

  function slow_because(run) {
    const found = run.facts.slow;
    if (!found || !found.length) return '';
    return make('div', { class: 'card' }, make('h3', null, 'Slow because'),
      make('ul', { class: 'small' }, found.map((f) => make('li', null, f.because + '; ', make('span', { class: 'soft' }, f.remedy)))));
  }

  // --- how far the confidence can be relied on ---
  function reliability(run) {
    const r = run.facts.reliability;
    if (!r || !r.images) return '';
    return section('Reliability', `How often answers of a confidence are right, on ${whole(r.images)} validation images. The confidence is off by ` +
      `${share(r.ece, 2)} on average (ECE); before it was calibrated (temperature ${short(r.temperature)}) by ${share(r.ece_before, 2)}.`,
      make('div', { class: 'card' }, make('div', { class: 'wide' }, make('table', null,
        make('thead', null, make('tr', null, make('th', null, 'confidence'), ['images', 'mean confidence', 'right'].map((t) => make('th', { class: 'n' }, t)), make('th', { class: 'meter' }))),
        make('tbody', null, r.bins.filter((bin) => bin.images).map((bin) => make('tr', null,
          make('td', null, `${share(bin.from, 0)} to ${share(bin.from + 1 / r.bins.length, 0)}`), make('td', { class: 'n' }, whole(bin.images)),
          make('td', { class: 'n' }, share(bin.confidence)), make('td', { class: 'n' }, share(bin.right / bin.images)),
          make('td', { class: 'meter' }, make('i', { style: `width:${(90 * bin.right) / bin.images}%` })))))))),
      r.negatives ? make('p', { class: 'small' }, `Of ${whole(r.negatives)} pictures that show nothing to be read, and were not trained on, ` +
        `${whole(r.negatives_accepted)} are answered; ${whole(r.negatives_at_keep)} at the threshold that keeps 98 % of the validation images.`) : '',
      make('p', { class: 'small' }, r.rule ? `Rejected below a confidence of ${r.reject_below} (${r.rule}): ${r.evidence}.` : 'Nothing is rejected; --reject auto:0.995 in training chooses a threshold.'));
  }

  // --- confusions ---
  const MATRIX = 20;
  function confusions(found) {
    if (!found.pairs || !found.pairs.length) return '';
    const name = (i) => (i === null ? '(nothing)' : found.symbols[i][0]);
    const rows = found.pairs.slice(0, 15).map(([expected, read, count]) => make('tr', null,
      make('td', { class: 'name' }, name(expected)), make('td', { class: 'name' }, name(read)), make('td', { class: 'n' }, whole(count)),
      make('td', { class: 'n' }, expected === null ? '' : share(count / found.symbols[expected][1]))));
    /* The symbols that most of it is about; of few all. */
    const weight = new Map();
    for (const [a, b, count] of found.pairs) for (const i of [a, b]) if (i !== null) weight.set(i, (weight.get(i) || 0) + count);
    const about = found.symbols.length <= MATRIX ? found.symbols.map((_, i) => i)
      : [...weight.keys()].sort((a, b) => weight.get(b) - weight.get(a) || a - b).slice(0, MATRIX).sort((a, b) => a - b);
    const counts = new Map(found.pairs.map(([a, b, count]) => [a + ':' + b, count]));
    const most = Math.max(...about.flatMap((a) => about.map((b) => (a === b ? 0 : counts.get(a + ':' + b) || 0))), 1);
    const long = about.some((i) => name(i).length > 2);
    const cell = (a, b) => {
      const count = a === b ? found.symbols[a][2] : counts.get(a + ':' + b) || 0;
      const words = `${name(a)} read as ${name(b)}: ${whole(count)}`;
      if (a === b) return make('td', { class: 'same', title: words }, whole(count));
      const heat = count ? 0.15 + 0.75 * Math.sqrt(count / most) : 0;
      return make('td', { class: count ? '' : 'zero', title: words, style: count ? `background:rgba(var(--heat),${heat.toFixed(2)});${heat > 0.6 ? 'color:#fff' : ''}` : '' }, whole(count));
    };
    const matrix = make('table', { class: 'matrix' },
      make('thead', null, make('tr', null, make('th'), about.map((i) => make('th', { class: long ? 'long' : '' }, make('span', { title: name(i) }, name(i)))))),
      make('tbody', null, about.map((a) => make('tr', null, make('th', null, name(a)), about.map((b) => cell(a, b))))));
    const about_text = (found.symbols.length > about.length ? `The ${about.length} ${found.unit} that most is about. ` : '') +
      'A row is what was expected, a column what was read; the diagonal is right.';
    const rest = found.pairs.length - rows.length + (found.more_pairs || 0);
    return section('Confusions', about_text, make('div', { class: 'two' },
      make('div', { class: 'card wide' }, matrix),
      make('div', { class: 'card wide' }, make('table', null,
        make('thead', null, make('tr', null, make('th', null, 'expected'), make('th', null, 'read'), make('th', { class: 'n' }, 'times'), make('th', { class: 'n' }, 'of it'))),
        make('tbody', null, rows)), rest > 0 ? make('p', { class: 'soft small', style: 'margin:8px 0 0' }, `and ${whole(rest)} pairs more`) : '')));
  }

  // --- the worst errors ---
  /* Where two texts part: the characters of each that are not in a longest common sequence. */
  function differences(a, b) {
    const one = [...a], other = [...b];
    const left = Array.from({ length: one.length + 1 }, () => new Array(other.length + 1).fill(0));
    for (let i = one.length - 1; i >= 0; i--)
      for (let j = other.length - 1; j >= 0; j--)
        left[i][j] = one[i] === other[j] ? 1 + left[i + 1][j + 1] : Math.max(left[i + 1][j], left[i][j + 1]);
    const marked = [[], []];
    let i = 0, j = 0;
    while (i < one.length || j < other.length)
      if (i < one.length && j < other.length && one[i] === other[j]) { marked[0].push(one[i++]); marked[1].push(other[j++]); }
      else if (j >= other.length || (i < one.length && left[i + 1][j] >= left[i][j + 1])) marked[0].push(make('mark', null, one[i++]));
      else marked[1].push(make('mark', null, other[j++]));
    return marked;
  }
  function steps_strip(steps, others) {
    return make('div', { class: 'steps', 'aria-label': 'what each time step says' }, steps.map(([symbol, p], i) => {
      const words = `step ${i + 1}: ${symbol || 'blank'} ${share(p)}`;
      return make('span', { title: words, class: others && others[i] && others[i][0] !== symbol ? 'other' : null, style: symbol ? `background:rgba(var(--heat),${(0.12 + 0.5 * p).toFixed(2)})` : 'background:var(--grid);color:var(--soft)' }, symbol || '·');
    }));
  }
  function guesses(parts) {
    return make('div', { class: 'guess' }, parts.slice(0, 5).map(([name, p]) =>
      [make('span', { class: 'name' }, name), make('i', { style: `width:${Math.max(1, 100 * p)}%` }), make('span', { class: 'sure' }, share(p))]));
  }
  const picture_of = (url, about, whole) => (url && /^data:image\/png;base64,[A-Za-z0-9+/=]+$/.test(url)
    ? make('img', { src: url, alt: about, class: whole ? 'whole' : '' }) : null);
  function error_card(error, unit) {
    const characters = unit === 'characters';
    const [expected, read] = characters ? differences(error.expected, error.read)
      : [[error.expected], [make('mark', null, error.read)]];
    const picture = picture_of(error.picture, `expected ${error.expected}`, characters);
    const least = characters && error.parts && error.parts.length ? error.parts.reduce((a, b) => (b[1] < a[1] ? b : a)) : null;
    const words = make('dl', null,
      make('dt', null, 'expected'), make('dd', null, expected), make('dt', null, 'read'), make('dd', null, read.length ? read : '(nothing)'),
      make('dt', null, 'sure'), make('dd', { class: 'sure' }, share(error.confidence), least ? `, least of ${least[0]}: ${share(least[1])}` : ''));
    /* A plate lies above its time steps, so that each stands below what it saw. */
    return make('div', { class: 'card error' },
      characters ? [make('div', { class: 'plate' }, picture, error.steps ? steps_strip(error.steps) : ''), words]
        : [make('div', { class: 'top' }, picture, words), guesses(error.parts || [])],
      make('footer', null, error.path));
  }
  function worst(found) {
    if (!found.errors) return '';
    const wrong = found.images - found.correct;
    if (!wrong) return found.images ? section('The worst errors', `All ${whole(found.images)} images were answered right.`) : '';
    const about = `${whole(wrong)} of ${whole(found.images)} images were answered wrong${known(found.step) ? ` at step ${whole(found.step)}` : ''}; ` +
      (wrong > found.errors.length ? `the ${found.errors.length} surest of them:` : 'the surest first:') +
      (found.errors.some((error) => error.steps) ? ' below each what the network says at each of its time steps, · for the blank.' : '');
    return section('The worst errors', about, cards(found.errors, (error) => error_card(error, found.unit)));
  }
  /* The first of a list as cards, and a button for more of them. */
  function cards(list, card) {
    const grid = make('div', { class: 'errors' });
    let shown = 0;
    const more = make('button', { type: 'button', style: 'margin-top:12px', onclick: () => show_more(48) }, 'show more');
    function show_more(count) {
      for (const end = shown + count; shown < end && shown < list.length; shown++) grid.append(card(list[shown]));
      more.hidden = shown >= list.length;
    }
    show_more(24);
    return [grid, more];
  }

  // --- two models ---
  function disagreement_card(image, unit) {
    const characters = unit === 'characters', expected = image.a.expected;
    const picture = picture_of(image.picture, `expected ${expected}`, characters);
    const models = [['A', image.a, image.a_right], ['B', image.b, image.b_right]];
    const said = (answer, right) => (right ? make('span', { class: 'right' }, answer.read)
      : !answer.read ? make('mark', null, '(nothing)') : characters ? differences(expected, answer.read)[1] : make('mark', null, answer.read));
    const words = make('dl', null, make('dt', null, 'expected'), make('dd', null, expected), models.map(([name, answer, right]) =>
      [make('dt', null, name), make('dd', null, said(answer, right), make('span', { class: 'sure' }, ' ' + share(answer.confidence)))]));
    const rows = models.map(([name, answer]) => [make('span', { class: 'soft small' }, name), characters ? steps_strip(answer.steps || [], image.a.steps) : guesses((answer.parts || []).slice(0, 3))]);
    return make('div', { class: 'card error' },
      characters ? [make('div', { class: 'beside' }, picture ? [make('span'), picture] : '', rows), words]
        : [make('div', { class: 'top' }, picture, words), make('div', { class: 'beside' }, rows)],
      make('footer', null, image.a.path));
  }
  function disagreements(diff, title, about, all, images) {
    if (!all) return '';
    const steps = images.some((image) => image.a.steps && image.a.steps.length);
    return section(title, `${about} ${whole(all)} of ${whole(diff.compared)} images` +
      (all > images.length ? `; the ${images.length} surest wrong answers:` : ', the surest wrong answers first.') +
      (steps ? ' Below each what A and B say at each time step, · for the blank; framed where B says something else.' : ''),
    cards(images, (image) => disagreement_card(image, diff.unit)));
  }
  function tensors(diff) {
    const SHOWN = 15, list = diff.tensors || [], relative = (t) => (known(t.relative) ? t.relative : -1);
    const ordered = [...list].sort((a, b) => relative(b) - relative(a)), most = Math.max(...ordered.map(relative), 1e-30);
    const row = (t) => make('tr', null, make('td', { class: 'op' }, t.name),
      make('td', { class: 'n' }, known(t.relative) ? short(100 * t.relative) + ' %' : '–'), make('td', { class: 'n' }, short(t.largest)), make('td', { class: 'op' }, t.shape),
      make('td', { class: 'meter' }, known(t.relative) ? make('i', { style: `width:${(90 * t.relative) / most}%` }) : ''));
    const table = (rows) => make('div', { class: 'wide' }, make('table', null,
      make('thead', null, make('tr', null, make('th', null, 'tensor'), make('th', { class: 'n' }, 'differs by'),
        make('th', { class: 'n' }, 'at most'), make('th', null, 'shape'), make('th', { class: 'meter' }))), make('tbody', null, rows.map(row))));
    const lone = [['only in A', diff.only_in_a], ['only in B', diff.only_in_b]].filter(([, names]) => names && names.length);
    const others = [...(diff.other_shapes || []).map((t) => [t.name, t.a, t.b]), ...(diff.metadata || []).map((m) => [m.key, m.a, m.b])];
    return section('The weights', `${whole(list.length)} tensors differ, ${whole(diff.same_tensors)} are bit for bit the same. ` +
      'Differs by: the root of the sum of the squared differences, over that of A; at most: the largest single difference.',
    list.length ? make('div', { class: 'card' }, table(ordered.slice(0, SHOWN)),
      list.length > SHOWN ? make('details', null, make('summary', { class: 'small' }, `all ${whole(list.length)}, in the network's order`), table(list)) : '') : '',
    others.length ? make('div', { class: 'card wide', style: 'margin-top:12px' }, make('h3', null, 'Shapes and metadata'), make('table', null,
      make('thead', null, make('tr', null, make('th'), make('th', null, 'A'), make('th', null, 'B'))),
      make('tbody', null, others.map(([name, a, b]) => make('tr', null, make('td', { class: 'op' }, name),
        [a, b].map((text) => make('td', { class: 'name' }, text === null ? '–' : text))))))) : '',
    lone.map(([title, names]) => make('details', null, make('summary', { class: 'small' }, `${whole(names.length)} ${title}`), make('p', { class: 'small name' }, names.join(', ')))));
  }
  function two_models() {
    const d = data.diff, [a, b] = d.models, neither = d.different - d.only_a_right - d.only_b_right;
    const of = (right_a, right_b) => d.images.filter((image) => image.a_right === right_a && image.b_right === right_b);
    const what = d.unit === 'characters' ? 'plates read whole' : 'top-1';
    document.title = 'two models · xtrain';
    return [make('header', null, make('h1', null, `${whole(d.different)} of ${whole(d.compared)} answered differently`)),
      make('p', { class: 'soft small name' }, `A: ${a.path}`, make('br'), `B: ${b.path}`, make('br'), `on ${d.data}`),
      make('div', { class: 'figures' }, figure(share(a.accuracy, 2), `${what}, A`), figure(share(b.accuracy, 2), `${what}, B`),
        figure(whole(d.only_a_right), 'A alone is right'), figure(whole(d.only_b_right), 'B alone is right'), figure(whole(neither), 'neither is right')),
      disagreements(d, 'A alone is right', 'What B lost:', d.only_a_right, of(true, false)),
      disagreements(d, 'B alone is right', 'What B gained:', d.only_b_right, of(false, true)),
      disagreements(d, 'Neither is right', 'Both wrong, each in its way:', neither, of(false, false)), tensors(d)];
  }

  // --- settings ---
  function settings(run) {
    if (!run.settings || !run.settings.length) return '';
    const row = ([key, value, from]) => make('tr', { class: from === 'default' ? 'default' : '' }, make('td', null, key), make('td', null, value), make('td', { class: 'soft small' }, from));
    const chosen = run.settings.filter((s) => s[2] !== 'default'), others = run.settings.filter((s) => s[2] === 'default');
    const table = (list) => make('div', { class: 'wide' }, make('table', { class: 'settings' }, make('tbody', null, list.map(row))));
    return make('div', { class: 'card' }, table(chosen),
      others.length ? make('details', null, make('summary', { class: 'small' }, `${others.length} that are as they are by default`), table(others)) : '');
  }
  function differing() {
    const value = (run, key) => { const found = (run.settings || []).find((s) => s[0] === key); return found ? found[1] : '–'; };
    const runs = data.runs;
    const best = (e) => (e && e.figures.length ? `${share(e.figures[0][1], 2)} at ${whole(e.step)}` : '–');
    const line = (name, of) => make('tr', null, make('th', null, name), runs.map((run) => make('td', { class: 'name' }, of(run))));
    return section('Side by side', null, make('div', { class: 'card wide' }, make('table', null,
      make('thead', null, make('tr', null, make('th'), runs.map((run) => make('th', { class: 'name' }, make('span', { class: 'dot', style: `background:${run.colour}` }), run.name)))),
      make('tbody', null,
        line('state', (run) => state_of(run) || '–'), line('best', (run) => best(run.best)), line('last', (run) => best(run.last)),
        line('loss', (run) => short((run.training[run.training.length - 1] || {}).loss)),
        line('time', (run) => duration(run.seconds)), line('images a second', (run) => whole(run.images_per_s)),
        data.different.map((key) => line(key, (run) => value(run, key)))))));
  }

  // --- the page ---
  /* A part whose data is not what it should be is missing alone. */
  function part(name, of) {
    try { return of(); } catch { return make('p', { class: 'state bad' }, `${name} cannot be drawn: report.json is damaged`); }
  }
  const costs_of = (run) => [part('Time', () => time_spent(run)), part('What made it slow', () => slow_because(run)), part('The slowest ops', () => slowest(run))].filter((x) => x);
  const found_by = (found) => (found ? [part('Confusions', () => confusions(found)), part('The worst errors', () => worst(found))] : '');
  function one_run(run) {
    document.title = run.name + ' · xtrain';
    const costs = costs_of(run);
    return [make('header', null, make('h1', null, run.name), state_of(run), again()), part('What the run came to', () => head(run)), curves(),
      found_by(run.facts.evaluation), part('Reliability', () => reliability(run)), costs.length ? section('Where the time went', null, make('div', { class: 'charts loose' }, costs)) : '',
      run.settings.length ? section('Settings', null, settings(run)) : ''];
  }
  function show_run(run, shown) {
    run.shown = shown;
    lay_out(view.axis);
    view.charts.forEach(render);
  }
  function several_runs() {
    document.title = `${data.runs.length} runs · xtrain`;
    const apart = data.runs.map((run) => {
      const costs = costs_of(run);
      return make('details', null, make('summary', null, make('span', { class: 'dot', style: `background:${run.colour}` }), run.name),
        part('What the run came to', () => head(run)), found_by(run.facts.evaluation),
        costs.length ? make('div', { class: 'charts loose' }, costs) : '', make('h2', null, 'Settings'), settings(run));
    });
    return [make('header', null, make('h1', null, `${data.runs.length} runs`), again()),
      make('div', { class: 'legend' }, data.runs.map((run) => make('label', null,
        make('input', { type: 'checkbox', checked: true, 'aria-label': `draw ${run.name}`, onchange: (event) => show_run(run, event.target.checked) }),
        make('i', { class: 'dot', style: `background:${run.colour}` }), run.name))),
      differing(), curves(), section('Each run', null, apart)];
  }
  function findings() {
    const found = data.evaluation;
    document.title = 'errors · xtrain';
    return [make('header', null, make('h1', null, `${whole(found.images - found.correct)} of ${whole(found.images)} wrong`)),
      make('p', { class: 'soft small name' }, `${data.weights} on ${data.data}`),
      make('div', { class: 'figures' }, found.figures.map(([key, value]) => figure(share(value, 2), title_of(key))), figure(short(found.loss), 'loss')),
      confusions(found), worst(found)];
  }

  // --- xtrain try ---
  function tried() {
    const { found, suspects, unit } = data.tried;
    const rows = (list, ...cells) => make('div', { class: 'card wide' }, make('table', null, make('tbody', null,
      list.map((item) => make('tr', null, make('th', null, item.name || item.label), cells.map((cell) => make('td', null, cell(item))))))));
    document.title = 'try · xtrain';
    return [make('header', null, make('h1', null, found.data), make('a', { href: 'reader/report.html' }, 'the training')),
      rows(found.result, (item) => item.detail),
      suspects.length ? section('Labels that look wrong', 'Read by a network that was trained on the other half of the images; the likeliest to be wrong first. Pictures that are hard to read are among them: look before changing a label.',
        cards(suspects, (error) => error_card(error, unit))) : '',
      found.wanted.length ? section('What to photograph more of', null, rows(found.wanted, (item) => `${whole(item.correct)} of ${whole(item.count)} read right`)) : '',
      section('The stages', null, rows(found.stages, (item) => item.detail, (item) => duration(item.seconds)))];
  }

  if (data.runs) data.runs.forEach(read_run);
  page.replaceChildren();
  put(page, [data.tried ? tried() : data.diff ? two_models() : !data.runs ? findings() : data.runs.length === 1 ? one_run(data.runs[0]) : several_runs()]);
  page.append(make('p', { class: 'soft small', style: 'margin-top:40px' }, `xtrain ${data.version}`));
  let resized = 0;
  const render_all = () => view.charts.forEach(render);
  lay_out(view.axis);
  render_all();
  addEventListener('resize', () => { cancelAnimationFrame(resized); resized = requestAnimationFrame(render_all); });
  document.documentElement.dataset.drawn = 'yes';
})();
