"""check_json.py XTRAIN PAGE FILE...: each line is a JSON object as `xtrain schema` says, and PAGE describes its names. A
file is called N.NAME.CODE: the schema of its last line, and the exit code that this must name. Covers the keywords that
xtrain's schemas use, and refuses others."""
import functools
import json
import os
import re
import subprocess
import sys

KEYWORDS = {'$schema', 'title', 'description', 'type', 'const', 'properties', 'required', 'additionalProperties', 'items',
            'if', 'then', 'else', 'anyOf'}
TYPES = {'object': dict, 'array': list, 'string': str, 'boolean': bool, 'null': type(None)}


def is_type(value, name):
    if name in ('number', 'integer'):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and (name == 'number' or value == int(value))
    return isinstance(value, TYPES[name])


def faults(schema, value, at):
    """What is wrong, as sentences."""
    if set(schema) - KEYWORDS:
        yield f'{at}: the schema has {set(schema) - KEYWORDS}'
    types = schema.get('type', [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(value, name) for name in types):
        yield f'{at}: {value!r} is not of type {types}'
    if 'const' in schema and value != schema['const']:
        yield f'{at}: {value!r} is not {schema["const"]!r}'
    if isinstance(value, dict):
        known = schema.get('properties', {})
        yield from (f'{at}: {name} is missing' for name in schema.get('required', []) if name not in value)
        for name, member in value.items():
            if name in known:
                yield from faults(known[name], member, f'{at}.{name}')
            elif schema.get('additionalProperties') is False:
                yield f'{at}: {name} is not in the schema'
            if known and not re.fullmatch(r'[a-z0-9_]+', name):
                yield f'{at}: "{name}" is not snake_case'
    if isinstance(value, list) and 'items' in schema:
        for index, item in enumerate(value):
            yield from faults(schema['items'], item, f'{at}[{index}]')
    if 'anyOf' in schema:
        each = [list(faults(one, value, at)) for one in schema['anyOf']]
        yield from min(each, key=len)
    if 'if' in schema:
        branch = 'else' if list(faults(schema['if'], value, at)) else 'then'
        yield from faults(schema.get(branch, {}), value, at)


@functools.lru_cache(None)
def schema_of(name):
    text = subprocess.run([sys.argv[1], 'schema', name], check=True, capture_output=True, text=True).stdout
    return json.loads(text)


def names(schema):
    for name, inner in schema.get('properties', {}).items():
        yield name
        yield from names(inner)
        yield from names(inner.get('items', {}))


with open(sys.argv[2]) as file:
    page = file.read()
wrong = []
for path in sys.argv[3:]:
    with open(path) as file:
        lines = file.read().splitlines()
    _, own, code = os.path.basename(path).split('.')
    wrong += [] if lines else [f'{own}: nothing was printed']
    for number, line in enumerate(lines):
        thing = json.loads(line)
        name = own if line is lines[-1] else thing['schema']['name']
        wrong += [f'{fault} in {line}' for fault in faults(schema_of(name), thing, f'{name} {number}')]
        wrong += [f'docs/json.md has no {word} of {name}' for word in names(schema_of(name)) if f'| `{word}` |' not in page]
    if lines and thing['exit_code'] != int(code):
        wrong.append(f'{own}: exit_code is {thing["exit_code"]}, not {code}')
print(*wrong, sep='\n', end='')
sys.exit(bool(wrong))
