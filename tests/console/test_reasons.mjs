/* The console's sentences about losses are those of docs/ledger.md. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { whatIs, whatToDo } from '../../collector/console/web/reasons.js';

const ROW = /^\| `(\w+)` \| (?:`(\w+)`|any) \| \w+ \| \w+ \| ([^|]*)\| (.*) \|$/;
const rows = readFileSync(new URL('../../docs/ledger.md', import.meta.url), 'utf8')
    .split('\n')
    .map((line) => ROW.exec(line))
    .filter(Boolean);

test('every row of docs/ledger.md has its sentence', () => {
    assert.ok(rows.length > 80);
    for (const [, stage, reason, , what] of rows) {
        const plain = what.replace(/\s*\(\[[^\]]*\]\([^)]*\)\)/, '').replaceAll('`', '');
        assert.equal(whatIs(stage, reason ?? 'anything'), plain, `${stage} ${reason}`);
    }
});

test('every loss says what to do', () => {
    for (const [, stage, reason, loss] of rows) {
        assert.ok(!loss.startsWith('LOSS') || whatToDo(stage, reason) !== '', `${stage} ${reason}`);
    }
});

test('a stage of a newer agent, or of a hostile one, has no sentence', () => {
    assert.equal(whatIs('constructor', 'name'), '');
    assert.equal(whatIs('source', '__proto__'), '');
    assert.equal(whatToDo('toString', 'x'), '');
});
