"""check_json.py XTRAIN NAME [CODE] <OUTPUT: each line is a JSON object as `xtrain schema NAME` says; the last one, if there
are several. CODE is the exit code that it must name. Covers the keywords that xtrain's schemas use, and refuses others."""
import json
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


def schema_of(name):
    text = subprocess.run([sys.argv[1], 'schema', name], check=True, capture_output=True, text=True).stdout
    return json.loads(text)


lines = sys.stdin.read().splitlines()
wrong = [] if lines else ['nothing was printed']
for number, line in enumerate(lines):
    thing = json.loads(line)
    name = sys.argv[2] if number == len(lines) - 1 else thing['schema']['name']
    wrong += faults(schema_of(name), thing, f'{name} {number}')
    if number == len(lines) - 1 and len(sys.argv) > 3 and thing['exit_code'] != int(sys.argv[3]):
        wrong.append(f'exit_code is {thing["exit_code"]}, not {sys.argv[3]}')
print(*wrong, sep='\n', end='')
sys.exit(bool(wrong))
