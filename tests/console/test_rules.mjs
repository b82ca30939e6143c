// Rules as the page shows them, without a browser.
import assert from 'node:assert/strict';
import test from 'node:test';
import { rowsOf, stateOf, valueText } from '../../collector/console/web/alarms.js';

test('a state has its word', () => {
    const word = (f) => stateOf(f)[0];
    assert.equal(word({ state: 'firing' }), 'firing');
    assert.equal(word({ state: 'unknown', reason: 'no data' }), 'unknown');
    assert.equal(word({ state: 'ok' }), 'ok');
    assert.equal(word({ state: 'ok', reason: 'true, not for long enough yet' }), 'pending');
    assert.equal(word({ state: 'of another release' }), 'unknown');
    assert.equal(word({}), 'unknown');
});

test('a value has its unit, and none is a dash', () => {
    for (const [v, unit, text] of [
        [1.5e9, 'ns', '1.5 s'],
        [1536, 'bytes', '1.5 KiB'],
        [1536, 'bytes/s', '1.5 KiB/s'],
        [0.25, 'share', '25.0 %'],
        [3, '/s', '3/s'],
        [12, 'count', '12'],
        [0, 'bytes', '0 B'],
        [undefined, 'bytes', '–'],
        [null, undefined, '–'],
    ])
        assert.equal(valueText(v, unit), text);
});

test('a row says since when, in which host', () => {
    const answer = {
        hosts: [{ name: 'web-1' }, { name: '*' }],
        events: [
            {
                host: 0,
                time_ms: 5,
                text: '3 of cc1',
                fields: { rule: 'r', state: 'firing', since: '2026-11-23T14:00:00.123456789Z' },
            },
            { host: 1, time_ms: 7000, fields: { rule: 's', state: 'unknown' } },
            { host: 1, time_ms: 8000 },
        ],
    };
    const rows = rowsOf(answer, 0);
    assert.ok(Math.abs(rows[0].since - Date.UTC(2026, 10, 23, 14, 0, 0, 123)) < 1);
    assert.equal(rows[0].host, 'web-1');
    assert.equal(rows[0].text, '3 of cc1');
    assert.equal(rows[1].since, 7000);
    assert.equal(rows[1].text, '');
    assert.equal(rows[2].state[0], 'unknown');
});
