// Colours, tables of answers, what did not arrive, and scales, without a browser.
import assert from 'node:assert/strict';
import test from 'node:test';
import { contrast, hash, mix, ofName } from '../../collector/console/web/colour.js';
import { holes, lossRuns } from '../../collector/console/web/hatch.js';

import { family } from '../../collector/console/web/icicle.js';
import { grouped, groupsOf, keyOf, processPath, rowsOf, titleOf } from '../../collector/console/web/rows.js';
import { valueTicks } from '../../collector/console/web/format.js';

test('a name has one colour, and its text can be read on it', () => {
    const names = [
        'postgres',
        'cc1',
        'bash',
        'java',
        'nginx',
        '',
        '<b>',
        ...Array.from({ length: 200 }, (_, i) => 'p' + i),
    ];
    assert.equal(hash('postgres'), hash('postgres'));
    assert.deepEqual(ofName('postgres'), ofName('postgres'));
    for (const name of names)
        assert.ok(contrast(ofName(name).fill, ofName(name).text) >= 4.5, `${name} ${ofName(name).fill}`);
    assert.ok(new Set(names.map((name) => ofName(name).fill)).size >= 30);
    assert.equal(mix('#000000', '#ffffff', 0.5), '#808080');
});

const answer = {
    hosts: [{ id: 'u', name: 'web-1' }],
    infos: [
        { pid: 7, start: '123', name: 'sh', user: 'pg' },
        { pid: 8, start: '9', name: '<img src=x>', user: null },
    ],
    rows: { n: 2, host: [0, 0], info: [0, 1], instances: [2, 1], hosts: [1, null], values: { cpu_time: [5, null] } },
    series: {
        groups: [
            { label: 'sh', columns: { cpu_time: { avg: [1, null] } } },
            { label: '<img src=x>', columns: {} },
            { label: null, columns: { cpu_time: { avg: [3, 4] } } },
        ],
    },
};

test('columns become rows, and what is absent stays absent', () => {
    const [a, b] = rowsOf(answer, 'process');
    assert.equal(keyOf(a), 'web-1/7.123');
    assert.equal(titleOf(a), 'sh 7');
    assert.deepEqual(processPath(a), ['web-1', '7.123']);
    assert.equal(b.v.cpu_time, null);
    assert.deepEqual(rowsOf(answer, 'image').map(keyOf), ['sh', '<img src=x>']);
    assert.deepEqual(rowsOf(answer, 'user').map(keyOf), ['pg', '–']);
    assert.deepEqual(rowsOf({}), []);
});

test('an image of a user is named by both', () => {
    assert.deepEqual(
        rowsOf(answer, 'image-user').map((row) => row.label),
        ['sh, pg', '<img src=x>, –'],
    );
});

test('the groups of a series know what is left over', () => {
    const groups = groupsOf(answer, 'cpu_time', 'image');
    assert.deepEqual(
        groups.map((g) => g.key),
        ['sh', '<img src=x>', null],
    );
    assert.deepEqual(groups[1].values, []);
    assert.equal(groups[2].label, 'rest');
});

const series = (present, hosts_in = present.map(() => 1)) => ({
    t0_ms: 0,
    step_ns: 1000000000,
    n: present.length,
    present,
    hosts_in,
});

test('what did not arrive is found, joined where it is of one kind, and never smaller than it is', () => {
    const runs = lossRuns(series([1e6, 0, 0, 1e6, 999999, 940000, 910000]));
    assert.deepEqual(
        runs.map((r) => [r.from, r.to, r.ppm]),
        [
            [1000, 3000, 0],
            [4000, 5000, 999999],
            [5000, 7000, 910000],
        ],
    );
    assert.deepEqual(lossRuns(series([1e6, 1e6])), []);
});

test('before the first data and after the last is no loss but nothing', () => {
    const host = { first_ns: '2000000000', last_ns: '5000000000', connected: false };
    const hole = holes(series(new Array(10).fill(0)), [host]);
    assert.equal(hole.before.until, 2000);
    assert.match(hole.before.text, /^not kept before 00:00:02$/);
    assert.equal(hole.after.from, 5000);
    assert.match(hole.after.text, /^silent since/);
    assert.equal(
        holes(series([0, 0]), [{ ...host, first_ns: '1', connected: true }]).after,
        null,
        'one that is there is not silent',
    );
    assert.match(holes(series(new Array(10).fill(0)), [{ ...host, ended: true }]).after.text, /^ended/);
});

test('children lie below the youngest process that had the number of their parent', () => {
    const row = (pid, parent, start_ns, sum) => ({
        pid,
        start: String(start_ns),
        host: { id: 'u', name: 'web-1' },
        group: 'process',
        label: null,
        name: 'x' + pid,
        info: { parent, start_ns: String(start_ns) },
        v: { cpu_time: sum },
    });
    const [root, ...others] = family(
        [row(1, 0, 1, 100), row(5, 1, 10, 30), row(5, 1, 50, 40), row(9, 5, 60, 25), row(8, 5, 20, null)],
        'cpu_time',
    );
    assert.deepEqual(others, []);
    assert.equal(root.own, 30);
    assert.deepEqual(
        root.children.map((c) => [c.sum, c.own, c.children.length]),
        [
            [30, 30, 1],
            [40, 15, 1],
        ],
    );
});

test('an axis has a mark above zero, and no more than fit', () => {
    for (let most = 0.001; most < 1e13; most *= 1.37) {
        for (const binary of [false, true]) {
            const marks = valueTicks(0, most, 2, binary);
            assert.ok(marks.length >= 2 && marks.length <= 5, `${most}: ${marks}`);
            assert.equal(marks[0], 0);
        }
    }
});

test('hosts of one prefix are one row, with the sums of what is known and the worst of what is not', () => {
    const host = (name, now, cover, connected = true) => ({
        h: { id: name, name, connected, processes: 2, cpus: 4, offset_ns: '-5', not_after_ns: '9', clones: 0 },
        cpu: now === null ? null : [null, now],
        present: [1e6, cover],
        now,
        memory: now,
        cover,
    });
    const rows = [
        host('web-001', 1, 1e6),
        host('web-002', 2, 5e5),
        host('web-x', null, null, false),
        host('db7', 5, 1e6),
    ];
    const [web, alone, db] = grouped(rows);
    assert.deepEqual([web.h.name, web.h.processes, web.h.cpus, web.now, web.cover], ['web-*', 4, 8, 3, 5e5]);
    assert.deepEqual(web.cpu, [null, 3]);
    assert.deepEqual(web.present, [1e6, 5e5]);
    assert.equal(web.state.name, '2 of 2');
    assert.deepEqual([alone.h.name, alone.now, alone.cpu], ['web-x', null, null]);
    assert.equal(db.h.name, 'db*');
});
