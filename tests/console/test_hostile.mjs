// What hosts and links may say: names, globs, times and numbers that are meant to deceive or to hold the page up.
import assert from 'node:assert/strict';
import test from 'node:test';
import { read } from '../../collector/console/web/api.js';
import { ofName } from '../../collector/console/web/colour.js';
import { title } from '../../collector/console/web/format.js';
import { family } from '../../collector/console/web/icicle.js';
import { byOf, grouped, matcher } from '../../collector/console/web/rows.js';
import { parse } from '../../collector/console/web/store.js';
import { field } from '../../collector/console/web/table.js';
import * as time from '../../collector/console/web/time.js';

test('what cannot be seen in a name is shown as its number', () => {
    const names = ['gpj.\u202eexe', 'post\u00adgres', 'a\u200bb', 'x\u{e0041}', 'h\u3164', '\ufe0f', '\u0007', '\u2066'];
    const escaped = (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0');
    for (const name of names) {
        for (const json of [JSON.stringify([name]), '["' + name.split('').map(escaped).join('') + '"]']) {
            const [seen] = read(json);
            assert.match(seen, /\\u[0-9a-f]{4,5}/, json);
            assert.doesNotMatch(seen, /[\p{Cf}\p{Cc}\p{Zl}]/u);
        }
    }
    assert.deepEqual(read('["ok é 中 \\u00e9", "a\\tb"]'), ['ok é 中 é', 'a\tb']);
});

test('a filter of many stars takes no time', () => {
    const slow = matcher('*a'.repeat(30) + 'b');
    const began = performance.now();
    for (let i = 0; i < 4000; i++) assert.equal(slow('a'.repeat(64)), false);
    assert.ok(performance.now() - began < 2000);
    for (const [glob, name, fits] of [
        ['web', 'Web-9', true],
        ['db?', 'db1', true],
        ['db?', 'db12', false],
        ['*-1', 'web-12', false],
        ['a*b*c', 'axxbyyc', true],
        ['a*b*c', 'axxbyyd', false],
        ['a.b*', 'axb', false],
        ['x, web-*', 'web-1', true],
        ['', 'any', true],
    ])
        assert.equal(matcher(glob)(name), fits, `${glob} ${name}`);
});

test('a link that cannot be read says so', () => {
    const month = '20261323T140000Z..20261324T140000Z';
    const minute = '20261123T147500Z..20261123T150000Z';
    for (const t of ['yesterday', month, minute, '-0s', 'x..y']) {
        assert.deepEqual(parse('#/top?t=' + t).unread, ['t=' + t]);
        assert.equal(parse('#/top?t=' + t).t, '-15m');
    }
    assert.deepEqual(parse('#/tpo').unread, ['tpo']);
    const range = '20261123T140000Z..20261123T141500Z';
    for (const good of ['#/', '#/top?t=-1h', '#/h/web-1?t=' + range, '', '#ticket=00ff', '#/ticket=00ff']) {
        assert.deepEqual(parse(good).unread, []);
    }
    assert.ok(Number.isNaN(time.parse('2026-00-10', 0)));
});

test('words of a link name nothing that every object has', () => {
    for (const word of ['constructor', '__proto__', 'toString']) {
        assert.equal(byOf(word).by, word);
        assert.equal(typeof title(word), 'string');
    }
});

test('moments are exact to the microsecond, and one that is not there is none', () => {
    for (const ns of ['0', '5', '-5', '-500', '-1500', '999', '1795406489890762082', '9223372036854775807']) {
        assert.equal(time.nsMs(ns), Number(BigInt(ns) / 1000n) / 1000 || 0, ns);
    }
    assert.equal(time.clock(time.nsMs(null), 1000), '–');
    assert.equal(time.full(NaN), '–');
});

test('a cell of a file is no formula', () => {
    for (const bad of ['=1+1', '@SUM(A1)', '+cmd|x', "-2+3+cmd|' /C calc'!A0", '\t=1']) {
        assert.match(field(bad), /^"?'/, bad);
    }
    for (const good of ['-5', '+0.01 s', '-3.6 %', 'web-1', '']) assert.equal(field(good), good);
    assert.equal(field('a "b", c'), '"a ""b"", c"');
});

const row = (i, pid, parent, start) => ({
    i,
    group: 'process',
    label: null,
    name: 'p',
    pid,
    start: String(start),
    host: { id: 'h', name: 'h' },
    info: { pid, parent, start_ns: String(start) },
    v: { cpu_time: 1 },
});

test('no process is lost in a tree: parents in a circle, one that is its own, a chain of thousands', () => {
    const count = (nodes) => nodes.reduce((n, x) => n + 1 + count(x.children), 0);
    assert.equal(count(family([row(0, 1, 2, 5), row(1, 2, 1, 5)], 'cpu_time')), 2);
    assert.equal(count(family([row(0, 1, 1, 5)], 'cpu_time')), 1);
    const chain = Array.from({ length: 4096 }, (_, i) => row(i, i + 1, i, i));
    assert.equal(family(chain, 'cpu_time').length, 1);
});

test('ten thousand hosts of one prefix are grouped at once, ten thousand names keep no memory', () => {
    const began = performance.now();
    const none = { cpu: null, present: null, used: null, now: 1, memory: 1, cover: null };
    const h = (i) => ({ ...none, h: { name: 'web-' + i, id: String(i) } });
    assert.equal(grouped(Array.from({ length: 10000 }, (_, i) => h(i))).length, 1);
    assert.ok(performance.now() - began < 2000);
    const first = ofName('job-0');
    for (let i = 0; i < 25000; i++) ofName('job-' + i);
    assert.deepEqual(ofName('job-0'), first);
});
