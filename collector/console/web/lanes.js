/* Process lifetimes as bars in lanes: loading, packing, hit testing, drawing.
 *
 *   load()  columns of an answer -> typed arrays; times in ms from the answer's t0
 *   kin()   the rows of a process, its parents and all that it started; part() -> the answer with these alone
 *   pack()  which lane each process lies in, and how high everything is; knows no pixels across
 *   hit()   what lies under a point
 *   draw()  the part that is in sight, as pixels (raster.js); what has letters or curves follows on the canvas
 *
 * A bar is at least 1 px wide. So that short ones never lie on top of each other, packing gives each the width of a
 * pixel, rounded up to a quarter power of two of milliseconds: lanes change at such steps, not with each movement.
 * What finds no lane among the first LANES of its group is counted and drawn as density ("+n").
 * Processes that ran during the whole range are one pale bar with their number.
 *
 * In a tree a process that is at least NODE_PX wide and has children gets a band of its own, children below it;
 * everything smaller is packed into the band of the nearest ancestor that has one, and appears when one zooms in. */

import { pixel, thin } from './raster.js';

export const LANES = 24;
export const PITCH = 8; /* px from lane to lane; a bar takes BAR of it */
const BAR = 6;
const NODE_PX = 24;
const PALE = 12; /* height of a bar "n throughout" */
const DENSE = 11; /* height of a row "+n" */
const TOP = 4;
const GAP = 5; /* between bands */
const BAND_MIN = 15; /* so that a label has its line */
const FADE_PX = 24; /* how long a bar without a known end is */
const DEPTH_MAX = 24;
const LIVES = -1;
/* Bits of `flags`. */
export const END_INFERRED = 1;
export const START_UNKNOWN = 2;
export const EXACT = 4;
export const END_UNKNOWN = 8; /* the life told reaches to the last sample */

/* Columns of /api/v1/lifetimes. `end` is Infinity while a process lives, and when it was last seen if `unknown`. */
export function load(answer) {
    const l = answer.lifetimes;
    const n = l.n;
    const d = {
        n,
        t0: l.t0_ms,
        names: l.names.map((s) => s || '(no name)'),
        hosts: answer.hosts.map((h) => h.name),
        start: Float64Array.from(l.start_ms),
        end: new Float64Array(n),
        unknown: new Uint8Array(n),
        host: Uint32Array.from(l.host),
        name: Uint32Array.from(l.name),
        pid: Uint32Array.from(l.pid),
        user: l.user ? Uint32Array.from(l.user) : null,
        parent: Float64Array.from(l.parent),
        exit: l.exit_code,
        flags: Uint32Array.from(l.flags),
        cpu: l.cpu_ms,
        failed: new Uint8Array(n),
        leftOut: l.left_out,
        density: l.density,
        range: [
            Number(BigInt(answer.since_ns) / 1000n) / 1000 - l.t0_ms,
            Number(BigInt(answer.until_ns) / 1000n) / 1000 - l.t0_ms,
        ],
        first: new Int32Array(n).fill(-1),
        next: new Int32Array(n).fill(-1),
    };
    for (let i = n - 1; i >= 0; i--) {
        const life = l.life_ms[i];
        d.unknown[i] = life < LIVES || d.flags[i] & END_UNKNOWN ? 1 : 0;
        d.end[i] = life === LIVES ? Infinity : d.start[i] + Math.max(0, life);
        d.failed[i] = d.exit[i] !== null && d.exit[i] !== 0 ? 1 : 0;
        const p = d.parent[i] - 1;
        if (p >= 0 && p < n && p !== i) {
            /* lists in order of start, since this loop goes backwards */
            d.next[i] = d.first[p];
            d.first[p] = i;
        }
    }
    return d;
}

export function kin(d, row) {
    const rows = new Set(ancestors(d, row).flatMap((a) => (a.row === undefined ? [] : [a.row])));
    const walk = [row];
    while (walk.length) {
        const i = walk.pop();
        if (i !== row && rows.has(i)) continue; /* parents in a circle */
        rows.add(i);
        for (let c = d.first[i]; c >= 0; c = d.next[c]) walk.push(c);
    }
    return [...rows].sort((a, b) => a - b);
}

const COLUMNS = ['start_ms', 'life_ms', 'host', 'name', 'pid', 'user', 'parent', 'exit_code', 'flags', 'cpu_ms'];

export function part(answer, rows) {
    const l = { ...answer.lifetimes, n: rows.length };
    const place = new Map(rows.map((row, k) => [row + 1, k + 1]));
    for (const name of COLUMNS) if (l[name]) l[name] = rows.map((row) => l[name][row]);
    l.parent = l.parent.map((p) => (p > 0 ? (place.get(p) ?? -answer.lifetimes.pid[p - 1]) : p));
    return { ...answer, lifetimes: l };
}

/* The quarter power of two of milliseconds that is at least one pixel. */
export function padOf(msPerPx) {
    return 2 ** (Math.ceil(4 * Math.log2(Math.max(msPerPx, 1e-6))) / 4);
}

/* First fit, of rows in order of their start. Writes at.lane[row], and at.bandOf[row], which is at.k. Returns {byLane:
 * rows of each, over: rows without one}. */
function fit(d, rows, at, pad, range) {
    const free = new Float64Array(LANES).fill(-Infinity);
    const over = [];
    const byLane = [];
    let lanes = 0;
    for (const i of rows) {
        const from = Math.max(d.start[i], range[0]);
        const until = Math.min(d.end[i], range[1]) + (d.unknown[i] ? FADE_PX * pad : 0);
        let k = 0;
        while (k < lanes && free[k] > from) {
            k++;
        }
        if (k === LANES) {
            at.lane[i] = -1;
            over.push(i);
            continue;
        }
        if (k === lanes) {
            lanes++;
            byLane.push([]);
        }
        at.lane[i] = k;
        at.bandOf[i] = at.k;
        byLane[k].push(i);
        free[k] = Math.max(until, from + pad) + pad;
    }
    return { byLane, over };
}

function throughout(d, i, range) {
    return d.start[i] <= range[0] && d.end[i] >= range[1] && !d.unknown[i];
}

function band(kind, key, label) {
    return {
        kind,
        key,
        label,
        depth: 0,
        node: -1,
        rows: [],
        through: [],
        over: [],
        byLane: [],
        lanes: 0,
        folded: false,
        foldable: false,
        y: 0,
        h: 0,
        hidden: 0,
    };
}

/* Which rows each group has. While one zooms that stays, and only lanes change. */
function groupRows(d, o) {
    const known = d.grouped;
    if (known?.group === o.group && known.from === o.range[0] && known.until === o.range[1]) return known.all;
    const of = { host: d.host, user: d.user }[o.group] ?? d.name;
    const all = new Map();
    for (let i = 0; i < d.n; i++) {
        let g = all.get(of[i]);
        if (!g) all.set(of[i], (g = { rows: [], through: [] }));
        (throughout(d, i, o.range) ? g.through : g.rows).push(i);
    }
    d.grouped = { group: o.group, from: o.range[0], until: o.range[1], all };
    return all;
}

function packGroups(d, o) {
    const names = o.group === 'host' ? d.hosts : d.names;
    const bands = new Map();
    for (const [key, rows] of groupRows(d, o)) {
        bands.set(key, Object.assign(band(o.group, names[key], names[key]), rows));
    }
    const rank = new Map(o.order.map((key, k) => [key, k]));
    const place = (b) => rank.get(b.key) ?? Infinity;
    const list = [...bands.values()].sort(
        (a, b) =>
            (place(a) === place(b) ? 0 : place(a) - place(b)) ||
            b.rows.length - a.rows.length ||
            (a.label < b.label ? -1 : 1),
    );
    /* Groups in which nothing changed are one band at the end. */
    const changed = list.filter((b) => b.rows.length > 0);
    const still = list.filter((b) => b.rows.length === 0);
    if (o.group !== 'host' && still.length > 1) {
        const rest = band('rest', '', `${still.length} others`);
        rest.through = still.flatMap((b) => b.through);
        return [...changed, rest];
    }
    return [...changed, ...still];
}

/* Bands of a tree, parents before their children. */
function packTree(d, o) {
    const bands = [];
    const wide = (i) => Math.min(d.end[i], o.range[1]) - Math.max(d.start[i], o.range[0]) >= NODE_PX * o.pad;
    const loose = band('tree', '', 'parent not here');
    const todo = [];
    const seen = new Uint8Array(d.n);
    const takeAll = (from, into) => {
        /* a subtree's rows, without recursion */
        const walk = [from];
        while (walk.length) {
            const i = walk.pop();
            if (seen[i]) {
                continue;
            }
            seen[i] = 1;
            into.push(i);
            for (let c = d.first[i]; c >= 0; c = d.next[c]) {
                walk.push(c);
            }
        }
    };
    for (let i = d.n - 1; i >= 0; i--) {
        const p = d.parent[i] - 1;
        if (p >= 0 && p < d.n && p !== i) {
            continue;
        }
        todo.push([i, 0, loose]);
    }
    while (todo.length) {
        const [i, depth, above] = todo.pop();
        if (seen[i]) {
            continue;
        }
        if (d.first[i] < 0 || !wide(i) || depth >= DEPTH_MAX) {
            takeAll(i, above.rows);
            continue;
        }
        seen[i] = 1;
        const b = band('tree', `${d.host[i]}/${d.pid[i]}/${d.start[i]}`, `${d.names[d.name[i]]} ${d.pid[i]}`);
        b.depth = depth;
        b.node = i;
        b.foldable = true;
        b.folded = o.folded.has(b.key);
        bands.push(b);
        if (b.folded) {
            for (let c = d.first[i]; c >= 0; c = d.next[c]) {
                takeAll(c, b.over);
            }
            b.hidden = b.over.length;
            b.over.sort((x, y) => x - y);
            continue;
        }
        const below = [];
        for (let c = d.first[i]; c >= 0; c = d.next[c]) {
            if (d.first[c] >= 0 && wide(c)) {
                below.push([c, depth + 1, b]);
            } else {
                takeAll(c, b.rows);
            }
        }
        while (below.length) {
            todo.push(below.pop());
        }
    }
    for (let i = 0; i < d.n; i++) {
        /* parents in a circle: no root led here */
        if (!seen[i]) {
            takeAll(i, loose.rows);
        }
    }
    if (loose.rows.length) {
        bands.push(loose);
    }
    for (const b of bands) {
        b.rows.sort((x, y) => x - y);
        b.through = b.rows.filter((i) => throughout(d, i, o.range));
        b.rows = b.rows.filter((i) => !throughout(d, i, o.range));
    }
    return bands;
}

/* opts: group "image"|"user"|"host"|"tree", pad (padOf), folded: Set of band keys, range: [since, until] in ms from t0,
 * order: keys of groups that keep their place (live: nothing jumps); others follow, those with most bars first.
 * Bands lie one below the other; a band is its pale bar, its own process (tree), its lanes and its "+n". */
export function pack(d, opts) {
    const o = { group: 'image', pad: 1, folded: new Set(), range: d.range, order: [], ...opts };
    const bands = o.group === 'tree' ? packTree(d, o) : packGroups(d, o);
    const lane = new Int16Array(d.n).fill(-1);
    const bandOf = new Int32Array(d.n).fill(-1);
    let y = TOP;
    for (const [k, b] of bands.entries()) {
        if (!b.folded) {
            const f = fit(d, b.rows, { lane, bandOf, k }, o.pad, o.range);
            b.byLane = f.byLane;
            b.lanes = f.byLane.length;
            b.over = f.over;
            b.hidden = f.over.length;
        }
        if (b.node >= 0) bandOf[b.node] = k;
        b.y = y;
        b.paleY = y;
        b.nodeY = y + (b.through.length ? PALE : 0);
        b.laneY = b.nodeY + (b.node >= 0 ? PITCH : 0);
        b.overY = b.laneY + b.lanes * PITCH;
        b.h = Math.max(BAND_MIN, b.overY + (b.hidden ? DENSE : 0) - y) + GAP;
        y += b.h;
    }
    return { bands, lane, bandOf, height: y, pad: o.pad, range: o.range, group: o.group };
}

/* Band at y, or null. */
export function bandAt(layout, y) {
    const { bands } = layout;
    let lo = 0;
    let hi = bands.length - 1;
    while (lo <= hi) {
        const mid = (lo + hi) >> 1;
        const b = bands[mid];
        if (y < b.y) {
            hi = mid - 1;
        } else if (y >= b.y + b.h) {
            lo = mid + 1;
        } else {
            return b;
        }
    }
    return null;
}

/* How many of `values`, which rise, are at most x. */
function upTo(values, x, of = (v) => v) {
    let [lo, hi] = [0, values.length];
    while (lo < hi) {
        const mid = (lo + hi) >> 1;
        if (of(values[mid]) <= x) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* How many of the rows without a lane live between two moments. */
function overAt(d, layout, b, from, until) {
    b.overEnds ??= Float64Array.from(b.over, (i) => Math.min(d.end[i], layout.range[1])).sort();
    return Math.max(0, upTo(b.over, until, (i) => d.start[i]) - upTo(b.overEnds, from));
}

/* What lies at (x, y): {band, row} with row -1 beside the bars, {band, through: rows} or {band, over: how many}; null
 * below all bands. view: {from, until} in ms from t0 and {width}, the pixels between them. Bars are caught 3 px beside
 * them too. */
export function hit(d, layout, view, x, y) {
    const b = bandAt(layout, y);
    if (!b) {
        return null;
    }
    const scale = (view.until - view.from) / view.width;
    const t = view.from + x * scale;
    if (b.through.length && y < b.nodeY) {
        return { band: b, row: -1, through: b.through };
    }
    if (b.node >= 0 && y >= b.nodeY && y < b.laneY) {
        return { band: b, row: b.node };
    }
    if (b.hidden && y >= b.overY) {
        return { band: b, row: -1, over: overAt(d, layout, b, t - 3 * scale, t + 3 * scale) };
    }
    const rows = b.byLane[Math.floor((y - b.laneY) / PITCH)] ?? [];
    const next = upTo(rows, t, (i) => d.start[i]); /* bars of a lane do not overlap: it, or the one before */
    let best = -1;
    let bestOff = 3 * scale;
    for (const i of rows.slice(Math.max(0, next - 1), next + 1)) {
        const end = d.end[i] + (d.unknown[i] ? FADE_PX * scale : 0);
        const off = t < d.start[i] ? d.start[i] - t : Math.max(0, t - end);
        if (off <= bestOff) {
            best = i;
            bestOff = off;
        }
    }
    return { band: b, row: best };
}

/* Where a row is drawn: its y, or -1 if it lies in a pale bar, a "+n" or a folded part. */
export function rowY(layout, row) {
    const b = layout.bands[layout.bandOf[row]];
    if (!b) return -1;
    return b.node === row ? b.nodeY : b.laneY + layout.lane[row] * PITCH;
}

/* Parents of a row, nearest first: rows, and at the end {pid} if only its number is known. */
export function ancestors(d, row) {
    const chain = [];
    const seen = new Set([row]);
    let p = d.parent[row];
    while (p > 0 && p <= d.n && !seen.has(p - 1)) {
        seen.add(p - 1);
        chain.push({ row: p - 1 });
        p = d.parent[p - 1];
    }
    if (p < 0) {
        chain.push({ pid: -p });
    }
    return chain;
}

/* ---- drawing ---- */

/* How many of `rows` lived at each pixel, as columns of at most `h` px. */
export function heights(d, rows, view, until) {
    const px = view.width / (view.until - view.from);
    const sum = new Float32Array(Math.ceil(view.width) + 2);
    let most = 0;
    for (const i of rows) {
        const x0 = Math.floor((d.start[i] - view.from) * px);
        const x1 = Math.floor((Math.min(d.end[i], until) - view.from) * px) + 1;
        if (x1 > 0 && x0 < view.width) {
            sum[Math.max(0, x0)]++;
            sum[Math.min(sum.length - 1, x1)]--;
        }
    }
    for (let x = 1; x < sum.length; x++) {
        sum[x] += sum[x - 1];
        most = Math.max(most, sum[x]);
    }
    return { sum, most: Math.max(most, sum[0]) };
}

/* `at` in CSS pixels. */
function density(r, at, d, b, layout, view, dim) {
    const { sum, most } = heights(d, b.over, view, layout.range[1]);
    const base = b.overY - view.top + DENSE - 1;
    for (let x = 0; x < view.width; x++) {
        if (sum[x] > 0) r.box(at(x), at(x + 1), at(base - Math.max(1, ((DENSE - 2) * sum[x]) / most)), at(base), dim);
    }
}

/* An end of a code other than 0: red and higher than the bar, with a cross where there is room. */
function failure(r, at, x0, x1, y, ratio, theme) {
    r.box(Math.max(x0, x1 - at(2)), x1, at(y - 1), at(y + BAR + 1), theme.bad);
    if (x1 - x0 < at(14)) return;
    const left = x1 - at(10);
    const high = at(y + BAR) - at(y);
    r.box(left, left + at(8), at(y), at(y + BAR), theme.ground);
    for (let k = 0; k < high; k++) {
        const along = at(1.5) + Math.round(((k + 0.5) / high) * 4.5 * ratio);
        const thick = Math.max(1, Math.round(1.2 * ratio));
        r.box(left + along, left + along + thick, at(y) + k, at(y) + k + 1, theme.bad);
        r.box(left + at(8) - along - thick, left + at(8) - along, at(y) + k, at(y) + k + 1, theme.bad);
    }
}

/* Bars of the bands in sight. What has no exact place among the pixels comes back: waves where an end is inferred. */
function bars(r, d, layout, view, paint, theme, shown, ratio) {
    const scale = (view.width / (view.until - view.from)) * ratio;
    const { from } = view;
    const at = (v) => Math.round(v * ratio);
    const fade = at(FADE_PX);
    const waves = [];
    let n = 0;
    const put = (i, y) => {
        const begin = (d.start[i] - from) * scale;
        const end = (Math.min(d.end[i], layout.range[1]) - from) * scale;
        const open = d.unknown[i];
        if (end < (open ? -fade : -1) || begin > r.w) return;
        const [y0, y1] = [at(y), at(y + BAR)];
        const colour = paint.pixels[paint.of[i]];
        const x0 = begin < 0 ? 0 : Math.floor(begin);
        const x1 = end > r.w ? r.w : Math.max(x0 + 1, Math.round(end));
        const ends = end <= r.w;
        n++;
        if (open && ends) {
            const step = (part) => Math.round(end) + Math.round((part * fade) / 4);
            for (let part = 0; part < 4; part++) {
                r.box(step(part), step(part + 1), y0, y1, thin(colour, 0.85 - part * 0.22));
            }
        }
        if (end < 0) return;
        r.box(x0, x1, y0, y1, colour);
        if (d.flags[i] & START_UNKNOWN && x1 - x0 > at(8) && x0 > 0) {
            /* begun earlier than it was first seen */
            r.box(x0, x0 + at(3), y0, y1, thin(colour, 0.25));
            r.box(x0 + at(3), x0 + at(6), y0, y1, thin(colour, 0.6));
        }
        if (d.failed[i] && ends) {
            failure(r, at, x0, x1, y, ratio, theme);
        } else if (d.flags[i] & END_INFERRED && ends && x1 - x0 > at(16)) {
            const left = x1 - at(11);
            r.box(left, x1, y0, y1, theme.ground);
            waves.push(left / ratio, y);
        }
    };
    for (const b of shown) {
        if (b.node >= 0) put(b.node, b.nodeY - view.top);
        const top = b.laneY - view.top;
        for (let k = Math.max(0, Math.floor(-top / PITCH)); k < b.byLane.length; k++) {
            if (top + k * PITCH > view.height) break;
            const rows = b.byLane[k];
            /* Of a lane the part in sight: its bars rise, and do not overlap. */
            const first = Math.max(0, upTo(rows, from, (i) => d.start[i]) - 1);
            for (let j = first; j < rows.length && d.start[rows[j]] <= view.until; j++) {
                put(rows[j], top + k * PITCH);
            }
        }
    }
    return { waves, bars: n };
}

/* Draws bands in sight into a raster of the view's size. What it returns goes to finish().
 * view   {from, until} ms from t0, {width, height} px, top: px scrolled away
 * paint  {pixels: of each colour, of: index for each row, group(band) → CSS colour}
 * theme  {ground, ink, dim, grid, bad}: #rrggbb */
export function draw(r, d, layout, view, paint, theme) {
    const ratio = r.w / view.width;
    const at = (v) => Math.round(v * ratio);
    const [grid, dim, ground, bad] = [theme.grid, theme.dim, theme.ground, theme.bad].map((c) => pixel(c));
    const shown = [];
    for (
        let b = bandAt(layout, Math.max(TOP, view.top)), k = b ? layout.bands.indexOf(b) : -1;
        k >= 0 && k < layout.bands.length && layout.bands[k].y < view.top + view.height;
        k++
    ) {
        shown.push(layout.bands[k]);
    }
    for (const b of shown) {
        const line = at(b.y - view.top + b.h - Math.ceil(GAP / 2));
        r.box(0, r.w, line, line + Math.max(1, at(1)), grid);
        if (b.through.length) {
            const [x0, x1] = stretch(layout, view);
            const y = b.paleY - view.top;
            r.box(at(x0), at(x1), at(y), at(y + PALE - 2), pixel(paint.group(b), 0.28));
        }
    }
    const drawn = bars(r, d, layout, view, paint, { ground, bad }, shown, ratio);
    for (const b of shown) if (b.hidden) density(r, at, d, b, layout, view, dim);
    return { ...drawn, shown };
}

/* The range that was asked for, in pixels of the view. */
function stretch(layout, view) {
    const px = view.width / (view.until - view.from);
    return layout.range.map((ms) => Math.max(0, Math.min(view.width, (ms - view.from) * px)));
}

/* Letters and curves over it, on a canvas at the context's origin (left end of the time axis, top of the bands). */
export function finish(g, drawn, layout, view, theme) {
    g.font = theme.font;
    g.textBaseline = 'middle';
    g.fillStyle = theme.ink;
    for (const b of drawn.shown) {
        const [x0, x1] = stretch(layout, view);
        if (b.through.length && x1 > x0) {
            g.fillText(`${b.through.length} throughout`, x0 + 6, b.paleY - view.top + PALE / 2 - 0.5);
        }
    }
    if (!drawn.waves.length) return;
    g.strokeStyle = theme.ink;
    g.lineWidth = 1;
    g.beginPath();
    for (let k = 0; k < drawn.waves.length; k += 2) {
        const [x, y] = [drawn.waves[k], drawn.waves[k + 1]];
        for (const dy of [1.5, 4.5]) {
            g.moveTo(x + 1, y + dy + 0.5);
            g.quadraticCurveTo(x + 3.5, y + dy - 1.5, x + 5.5, y + dy);
            g.quadraticCurveTo(x + 7.5, y + dy + 1.5, x + 10, y + dy - 0.5);
        }
    }
    g.stroke();
}

/* Labels to the left of the bands, `width` px wide, at the context's origin. `fold` marks are part of the text. */
export function drawLabels(g, layout, view, width, theme, name) {
    g.save();
    g.beginPath();
    g.rect(0, 0, width, view.height);
    g.clip();
    g.font = theme.font;
    g.textBaseline = 'middle';
    for (const b of layout.bands) {
        const y = b.y - view.top;
        if (y + b.h < 0) {
            continue;
        }
        if (y > view.height) {
            break;
        }
        const text = name(b);
        const x = 4 + Math.min(b.depth, 8) * 8;
        const sign = b.foldable ? (b.folded ? '▸ ' : '▾ ') : '';
        const more = b.hidden ? `+${b.hidden}` : '';
        g.fillStyle = theme.ink;
        const room = width - x - 6 - (b.h <= BAND_MIN + GAP && more ? 34 : 0);
        if (b.cut?.room !== room || b.cut.of !== sign + text) {
            b.cut = { room, of: sign + text, text: cut(g, sign + text, room) };
        }
        g.fillText(
            b.cut.text,
            x,
            Math.max(y, Math.min(y + b.h - BAND_MIN, 0)) + BAND_MIN / 2,
        );
        if (more) {
            g.fillStyle = theme.dim;
            g.textAlign = 'right';
            g.fillText(more, width - 6, b.overY - view.top + DENSE / 2);
            g.textAlign = 'left';
        }
        g.fillStyle = theme.grid;
        g.fillRect(0, y + b.h - Math.ceil(GAP / 2), width, 1);
    }
    g.restore();
}

function cut(g, text, width) {
    if (g.measureText(text).width <= width) {
        return text;
    }
    let lo = 0;
    let hi = Math.min(text.length, 200);
    while (lo < hi) {
        const mid = (lo + hi + 1) >> 1;
        if (g.measureText(`${text.slice(0, mid)}…`).width <= width) {
            lo = mid;
        } else {
            hi = mid - 1;
        }
    }
    return `${text.slice(0, lo)}…`;
}
