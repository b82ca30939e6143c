/* Lanes of the console's timeline: packing and hit testing, without a browser. */

import assert from 'node:assert/strict';
import test from 'node:test';
import {
    LANES,
    PITCH,
    ancestors,
    draw,
    hit,
    kin,
    load,
    pack,
    padOf,
    part,
    rowY,
} from '../../collector/console/web/lanes.js';
import { pixel, raster } from '../../collector/console/web/raster.js';

const SPAN = 60000;

/* rows: [start, life, name, pid, parent, exit code]; in order of start. */
function answer(rows, names = ['sh', 'cc']) {
    const column = (k) => rows.map((r) => r[k]);
    return {
        since_ns: '1000000000',
        until_ns: String(1000000000 + SPAN * 1e6),
        hosts: [{ name: 'web-1' }],
        lifetimes: {
            t0_ms: 1000,
            n: rows.length,
            start_ms: column(0),
            life_ms: column(1),
            name: column(2),
            pid: column(3),
            parent: column(4),
            exit_code: column(5),
            host: rows.map(() => 0),
            flags: rows.map(() => 0),
            cpu_ms: rows.map(() => null),
            names,
            left_out: 0,
            density: null,
        },
    };
}

/* No two bars of a lane touch, at the pad's width. */
function assertApart(d, l) {
    for (const b of l.bands) {
        const free = new Array(LANES).fill(-Infinity);
        for (const i of b.rows) {
            const k = l.lane[i];
            if (k < 0) {
                continue;
            }
            const from = Math.max(d.start[i], l.range[0]);
            assert.ok(free[k] <= from, `row ${i} lies on another in lane ${k} of ${b.label}`);
            free[k] = Math.max(Math.min(d.end[i], l.range[1]), from + l.pad);
        }
    }
}

function generated(n) {
    let x = 1;
    const random = () => {
        x = (Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
        return (x >>> 0) / 2 ** 32;
    };
    const rows = [];
    for (let i = 0; i < n; i++) {
        const life = random() < 0.5 ? random() * 20 : random() * 3000;
        rows.push([random() * SPAN, life, i % 2, i + 1, 0, i % 9 ? 0 : 1]);
    }
    rows.sort((a, b) => a[0] - b[0]);
    rows.forEach((r, i) => {
        r[4] = i > 10 ? 1 + Math.floor(random() * i) : -1;
    });
    return load(answer(rows));
}

test('bars of one lane never touch, whatever the grouping and the zoom', () => {
    const d = generated(3000);
    for (const group of ['image', 'host', 'tree']) {
        for (const pad of [1, 64, 1024]) {
            assertApart(d, pack(d, { group, pad }));
        }
    }
});

test('each process is in exactly one place: a lane, a pale bar or a +n', () => {
    const d = generated(3000);
    for (const group of ['image', 'host', 'tree']) {
        const l = pack(d, { group, pad: 64 });
        const times = new Uint8Array(d.n);
        for (const b of l.bands) {
            const inLanes = b.rows.filter((i) => l.lane[i] >= 0);
            for (const i of [...inLanes, ...b.through, ...b.over, ...(b.node < 0 ? [] : [b.node])]) {
                times[i]++;
            }
            assert.ok(b.lanes <= LANES);
            assert.equal(b.hidden, b.over.length);
        }
        assert.ok(
            times.every((n) => n === 1),
            group,
        );
    }
});

test('what ran the whole range is counted, not laid into lanes', () => {
    const d = load(
        answer([
            [-5, -1, 0, 1, -1, null],
            [-5, -1, 0, 2, 1, null],
            [10, 5, 0, 3, 1, 0],
        ]),
    );
    const [b] = pack(d).bands;
    assert.deepEqual(b.through, [0, 1]);
    assert.deepEqual(b.rows, [2]);
});

test('an end that is not known is not taken for a long life', () => {
    const d = load(
        answer([
            [-5, -2, 0, 1, -1, null],
            [10, -1, 0, 2, -1, null],
        ]),
    );
    const [b] = pack(d).bands;
    assert.deepEqual(b.through, []);
    assert.deepEqual([d.unknown[0], d.end[0], d.end[1]], [1, -5, Infinity]);
});

test('children lie below their parent, and folding hides all that descend from it', () => {
    const rows = [
        [0, 50000, 0, 10, -1, 0],
        [100, 40000, 0, 11, 1, 0],
        [200, 5, 1, 12, 2, 0],
        [300, 5, 1, 13, 1, 0],
    ];
    const d = load(answer(rows));
    const open = pack(d, { group: 'tree', pad: 1 });
    assert.deepEqual(
        open.bands.map((b) => [b.label, b.depth, b.rows]),
        [
            ['sh 10', 0, [3]],
            ['sh 11', 1, [2]],
        ],
    );
    const folded = pack(d, { group: 'tree', pad: 1, folded: new Set([open.bands[0].key]) });
    assert.deepEqual(
        folded.bands.map((b) => [b.folded, b.over]),
        [[true, [1, 2, 3]]],
    );
});

test('parents in a circle end', () => {
    const d = load(
        answer([
            [0, 9, 0, 1, 2, 0],
            [1, 9, 0, 2, 1, 0],
        ]),
    );
    assert.deepEqual(ancestors(d, 0), [{ row: 1 }]);
    assert.equal(pack(d, { group: 'tree' }).bands[0].rows.length, 2);
});

test('each bar is found where it is drawn', () => {
    const d = generated(2000);
    const view = { from: 0, until: SPAN, width: 1200 };
    const l = pack(d, { pad: padOf(SPAN / 1200) });
    for (let i = 0; i < d.n; i += 7) {
        const y = rowY(l, i);
        if (y >= 0) {
            const x = ((d.start[i] + Math.min(d.end[i], SPAN)) / 2 / SPAN) * 1200;
            assert.equal(hit(d, l, view, x, y + PITCH / 2).row, i);
        }
    }
});

globalThis.ImageData ??= class {
    constructor(w, h) {
        this.data = new Uint8ClampedArray(4 * w * h);
    }
};

/* The picture of the bands in sight: (x, y) → the pixel. */
function drawn(d, l, view, ratio = 1) {
    const r = raster(view.width, view.height, ratio);
    let words = null;
    r.put({ putImageData: (image) => (words = new Uint32Array(image.data.buffer)) }, 0, 0);
    const paint = { pixels: Uint32Array.of(pixel('#112233'), pixel('#445566')), of: d.name, group: () => '#778899' };
    const theme = { ground: '#ffffff', ink: '#000001', dim: '#999999', grid: '#eeeeee', bad: '#ff0000' };
    draw(r, d, l, { top: 0, ...view }, paint, theme);
    return (x, y) => words[Math.floor(y * ratio) * r.w + Math.floor(x * ratio)];
}

test('there are pixels where a process lived, and none where none did', () => {
    for (const ratio of [1, 2]) {
        const d = generated(400);
        const view = { from: 0, until: SPAN, width: 1200, height: 2000 };
        const l = pack(d, { pad: padOf(SPAN / 1200) });
        const at = drawn(d, l, view, ratio);
        const colours = [pixel('#112233'), pixel('#445566')];
        const lived = new Map(); /* of each lane's y the columns that are not empty */
        for (let i = 0; i < d.n; i++) {
            const y = rowY(l, i);
            if (y < 0) continue;
            const x = Math.floor((d.start[i] / SPAN) * 1200 * ratio) / ratio;
            const end = Math.max(x + 1 / ratio, (Math.min(d.end[i], SPAN) / SPAN) * 1200);
            const pixels = [at(x, y + 1), at(x, y + 4)];
            /* The last two pixels of one that failed are red. */
            if (!d.failed[i] || end - x > 3) assert.deepEqual(pixels, [colours[d.name[i]], colours[d.name[i]]], `row ${i}`);
            if (d.failed[i] && d.end[i] < SPAN) assert.equal(at(end - 0.9 / ratio, y + 3), pixel('#ff0000'), `row ${i}`);
            if (!lived.has(y)) lived.set(y, []);
            lived.get(y).push([x, end]);
        }
        for (const [y, spans] of lived) {
            for (let x = 0; x < 1200; x++) {
                if (spans.some(([from, end]) => x >= from - 1 && x <= end + 1)) continue;
                assert.equal(at(x, y + 3), 0, `nothing lived at ${x} in the lane at ${y}`);
            }
        }
    }
});

test('a part of the range shows that part, however far one zooms in', () => {
    const d = load(answer([[0, 10000, 0, 1, -1, 0], [20000, 10000, 0, 2, -1, 0], [25000, 0.01, 0, 3, -1, 0]]));
    const l = pack(d, { pad: padOf(1) });
    const at = drawn(d, l, { from: 24999, until: 25001, width: 1000, height: 60 });
    const [whole, brief] = [rowY(l, 1), rowY(l, 2)];
    assert.equal(at(0, whole + 3), pixel('#112233'));
    assert.equal(at(999, whole + 3), pixel('#112233'));
    assert.equal(at(500, brief + 3), pixel('#112233'));
    assert.equal(at(520, brief + 3), 0);
    assert.equal(at(480, brief + 3), 0);
});

test('what finds no lane is density', () => {
    const rows = Array.from({ length: LANES + 9 }, (_, i) => [1000 + i, 20000, 0, i + 1, -1, 0]);
    const d = load(answer(rows));
    const l = pack(d, { pad: padOf(SPAN / 1200) });
    const [b] = l.bands;
    const view = { from: 0, until: SPAN, width: 1200, height: 400 };
    const at = drawn(d, l, view);
    assert.equal(b.hidden, 9);
    assert.equal(at(200, b.overY + 8), pixel('#999999'));
    assert.equal(at(800, b.overY + 8), 0);
    assert.equal(hit(d, l, view, 200, b.overY + 4).over, 9);
    assert.equal(hit(d, l, view, 800, b.overY + 4).over, 0);
});

test('groups keep their places when a later answer counts differently', () => {
    const d = load(
        answer([
            [0, 5, 0, 1, -1, 0],
            [1, 5, 1, 2, -1, 0],
            [9, 5, 1, 3, -1, 0],
        ]),
    );
    assert.deepEqual(
        pack(d).bands.map((b) => b.key),
        ['cc', 'sh'],
    );
    assert.deepEqual(
        pack(d, { order: ['sh'] }).bands.map((b) => b.key),
        ['sh', 'cc'],
    );
});

test('a family is its parents and all that it started, and keeps its shape alone', () => {
    /* init 1 → sh 2 → cc 3, cc 4; another 5; 6 and 7 are each other's parent */
    const rows = [
        [0, -1, 0, 1, 0, null],
        [10, -1, 0, 2, 1, null],
        [20, 5, 1, 3, 2, 0],
        [30, 5, 1, 4, 2, 1],
        [40, 5, 1, 5, 1, 0],
        [50, 5, 1, 6, 7, 0],
        [50, 5, 1, 7, 6, 0],
    ];
    const whole = answer(rows);
    const d = load(whole);
    assert.deepEqual(kin(d, 1), [0, 1, 2, 3]);
    assert.deepEqual(kin(d, 3), [0, 1, 3]);
    assert.deepEqual(kin(d, 5), [5, 6]);
    const one = load(part(whole, [1, 3]));
    assert.deepEqual([...one.pid], [2, 4]);
    assert.deepEqual([...one.parent], [-1, 1]);
    assert.deepEqual(
        pack(one, { group: 'tree', pad: 1 }).bands.map((b) => b.label),
        ['sh 2'],
    );
    assert.equal(whole.lifetimes.n, 7);
});
