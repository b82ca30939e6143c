/* Process lifetimes as bars in lanes: loading, packing, hit testing, drawing.
 *
 *   load()  columns of an answer -> typed arrays; times in ms from the answer's t0
 *   kin()   the rows of a process, its parents and all that it started; part() -> the answer with these alone
 *   pack()  which lane each process lies in, and how high everything is; knows no pixels across
 *   hit()   what lies under a point
 *   draw()  the part that is in sight, on a canvas
 *
 * A bar is at least 1 px wide. So that short ones never lie on top of each other, packing gives each the width of a
 * pixel, rounded up to a quarter power of two of milliseconds: lanes change at such steps, not with each movement.
 * What finds no lane among the first LANES of its group is counted and drawn as density ("+n").
 * Processes that ran during the whole range are one pale bar with their number.
 *
 * In a tree a process that is at least NODE_PX wide and has children gets a band of its own, children below it;
 * everything smaller is packed into the band of the nearest ancestor that has one, and appears when one zooms in. */

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

/* First fit. Writes lane[row]; returns {lanes, over: rows without one}. Rows are in order of their start. */
function fit(d, rows, lane, pad, range) {
    const free = new Float64Array(LANES).fill(-Infinity);
    const over = [];
    let lanes = 0;
    for (const i of rows) {
        const from = Math.max(d.start[i], range[0]);
        const until = Math.min(d.end[i], range[1]) + (d.unknown[i] ? FADE_PX * pad : 0);
        let k = 0;
        while (k < lanes && free[k] > from) {
            k++;
        }
        if (k === LANES) {
            lane[i] = -1;
            over.push(i);
            continue;
        }
        lanes = Math.max(lanes, k + 1);
        lane[i] = k;
        free[k] = Math.max(until, from + pad) + pad;
    }
    return { lanes, over };
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
        lanes: 0,
        folded: false,
        foldable: false,
        y: 0,
        h: 0,
        hidden: 0,
    };
}

function packGroups(d, o) {
    const of = { host: d.host, user: d.user }[o.group] ?? d.name;
    const names = o.group === 'host' ? d.hosts : d.names;
    const bands = new Map();
    for (let i = 0; i < d.n; i++) {
        let b = bands.get(of[i]);
        if (!b) {
            b = band(o.group, names[of[i]], names[of[i]]);
            bands.set(of[i], b);
        }
        (throughout(d, i, o.range) ? b.through : b.rows).push(i);
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
    let y = TOP;
    for (const b of bands) {
        if (!b.folded) {
            const f = fit(d, b.rows, lane, o.pad, o.range);
            b.lanes = f.lanes;
            b.over = f.over;
            b.hidden = f.over.length;
        }
        b.y = y;
        b.paleY = y;
        b.nodeY = y + (b.through.length ? PALE : 0);
        b.laneY = b.nodeY + (b.node >= 0 ? PITCH : 0);
        b.overY = b.laneY + b.lanes * PITCH;
        b.h = Math.max(BAND_MIN, b.overY + (b.hidden ? DENSE : 0) - y) + GAP;
        y += b.h;
    }
    return { bands, lane, height: y, pad: o.pad, range: o.range, group: o.group };
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

/* What lies at (x, y): {band, row} with row -1 beside the bars, {band, through} or {band, over}; null below all bands.
 * view: {from, until} in ms from t0 and {width}, the pixels between them. Bars are caught 3 px beside them too. */
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
        const near = b.over.filter(
            (i) => d.start[i] - 3 * scale <= t && Math.min(d.end[i], layout.range[1]) + 3 * scale >= t,
        );
        return { band: b, row: -1, over: near };
    }
    const k = Math.floor((y - b.laneY) / PITCH);
    let best = -1;
    let bestOff = 3 * scale;
    for (const i of b.rows) {
        if (layout.lane[i] !== k) {
            continue;
        }
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
    for (const b of layout.bands) {
        if (b.node === row) {
            return b.nodeY;
        }
        if (!b.folded && layout.lane[row] >= 0 && b.rows.includes(row)) {
            return b.laneY + layout.lane[row] * PITCH;
        }
    }
    return -1;
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

const scratch = { n: 0, x: null, w: null, y: null, c: null, order: null };

function room(n) {
    if (scratch.n < n) {
        scratch.n = n;
        scratch.x = new Float32Array(n);
        scratch.w = new Float32Array(n);
        scratch.y = new Float32Array(n);
        scratch.c = new Uint16Array(n);
        scratch.order = new Uint32Array(n);
    }
    return scratch;
}

/* Bars in sight, sorted by colour, so that a frame sets each colour once. */
function bars(g, d, layout, view, paint, shown) {
    const s = room(d.n);
    const { lane } = layout;
    const px = view.width / (view.until - view.from);
    const { from, width } = view;
    const count = new Uint32Array(paint.colours.length + 1);
    const fades = [];
    const marks = [];
    const open = [];
    let n = 0;
    const put = (i, y) => {
        let x0 = (d.start[i] - from) * px;
        let x1 = (Math.min(d.end[i], layout.range[1]) - from) * px;
        if (x1 < (d.unknown[i] ? -FADE_PX : -1) || x0 > width) {
            return;
        }
        if (x1 < 0 && d.unknown[i]) {
            fades.push(x1, y, i);
            return;
        }
        const ends = x1 <= width;
        x0 = x0 < 0 ? 0 : Math.floor(x0);
        x1 = x1 > width ? width : x1;
        if (d.unknown[i] && ends) {
            fades.push(x1, y, i);
        }
        const w = x1 - x0 < 1 ? 1 : x1 - x0;
        if (d.failed[i] && ends) {
            marks.push(x0, y, w);
        } else if (d.flags[i] & END_INFERRED && ends && w > 16) {
            marks.push(x0, y, -w);
        }
        if (d.flags[i] & START_UNKNOWN && w > 8 && x0 > 0) {
            open.push(x0, y);
        }
        s.x[n] = x0;
        s.w[n] = w;
        s.y[n] = y;
        s.c[n] = paint.of[i];
        count[paint.of[i] + 1]++;
        n++;
    };
    for (const b of shown) {
        if (b.node >= 0) {
            put(b.node, b.nodeY - view.top);
        }
        if (b.folded) {
            continue;
        }
        const top = b.laneY - view.top;
        for (const i of b.rows) {
            if (lane[i] >= 0) {
                put(i, top + lane[i] * PITCH);
            }
        }
    }
    for (let c = 1; c < count.length; c++) {
        count[c] += count[c - 1];
    }
    for (let i = 0; i < n; i++) {
        s.order[count[s.c[i]]++] = i;
    }
    let colour = -1;
    for (let k = 0; k < n; k++) {
        const i = s.order[k];
        if (s.c[i] !== colour) {
            colour = s.c[i];
            g.fillStyle = paint.colours[colour];
        }
        g.fillRect(s.x[i], s.y[i], s.w[i], BAR);
    }
    return { fades, marks, open, bars: n };
}

/* Ends: red and higher than the bar for a code other than 0, with a cross where there is room; a wave if inferred. */
function ends(g, marks, theme) {
    g.fillStyle = theme.bad;
    for (let k = 0; k < marks.length; k += 3) {
        const [x, y, w] = [marks[k], marks[k + 1], marks[k + 2]];
        if (w > 0) {
            const cap = Math.min(2, w);
            g.fillRect(x + w - cap, y - 1, cap, BAR + 2);
        }
    }
    g.lineWidth = 1.5;
    for (let k = 0; k < marks.length; k += 3) {
        const [x, y, w] = [marks[k], marks[k + 1], marks[k + 2]];
        if (w >= 14) {
            const cx = x + w - 10;
            g.fillStyle = theme.ground;
            g.fillRect(cx, y, 8, BAR);
            g.strokeStyle = theme.bad;
            g.beginPath();
            g.moveTo(cx + 1.5, y + 0.5);
            g.lineTo(cx + 6.5, y + BAR - 0.5);
            g.moveTo(cx + 6.5, y + 0.5);
            g.lineTo(cx + 1.5, y + BAR - 0.5);
            g.stroke();
        } else if (w < 0) {
            const cx = x - w - 11;
            g.fillStyle = theme.ground;
            g.fillRect(cx, y, 11, BAR);
            g.strokeStyle = theme.ink;
            g.lineWidth = 1;
            g.beginPath();
            for (const dy of [1.5, 4.5]) {
                g.moveTo(cx + 1, y + dy + 0.5);
                g.quadraticCurveTo(cx + 3.5, y + dy - 1.5, cx + 5.5, y + dy);
                g.quadraticCurveTo(cx + 7.5, y + dy + 1.5, cx + 10, y + dy - 0.5);
            }
            g.stroke();
            g.lineWidth = 1.5;
        }
    }
}

function fade(g, fades, open, paint, theme) {
    g.fillStyle = theme.ground;
    for (let k = 0; k < open.length; k += 2) {
        /* begun earlier than it was first seen */
        g.globalAlpha = 0.75;
        g.fillRect(open[k], open[k + 1], 3, BAR);
        g.globalAlpha = 0.4;
        g.fillRect(open[k] + 3, open[k + 1], 3, BAR);
    }
    for (let k = 0; k < fades.length; k += 3) {
        g.fillStyle = paint.colours[paint.of[fades[k + 2]]];
        for (let part = 0; part < 4; part++) {
            g.globalAlpha = 0.85 - part * 0.22;
            g.fillRect(fades[k] + (part * FADE_PX) / 4, fades[k + 1], FADE_PX / 4, BAR);
        }
    }
    g.globalAlpha = 1;
}

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

function density(g, d, b, layout, view, theme) {
    const { sum, most } = heights(d, b.over, view, layout.range[1]);
    const base = b.overY - view.top + DENSE - 1;
    g.fillStyle = theme.dim;
    for (let x = 0; x < view.width; x++) {
        if (sum[x] > 0) {
            const h = Math.max(1, ((DENSE - 2) * sum[x]) / most);
            g.fillRect(x, base - h, 1, h);
        }
    }
}

/* Draws bands in sight at the context's origin (left end of the time axis, top of the bands).
 * view   {from, until} ms from t0, {width, height} px, top: px scrolled away
 * paint  {colours: [css], of: index for each row, group(band)}
 * theme  {ground, ink, dim, grid, bad, font}
 * Returns how many bars were drawn. */
export function draw(g, d, layout, view, paint, theme) {
    const shown = [];
    for (
        let b = bandAt(layout, Math.max(TOP, view.top)), k = b ? layout.bands.indexOf(b) : -1;
        k >= 0 && k < layout.bands.length && layout.bands[k].y < view.top + view.height;
        k++
    ) {
        shown.push(layout.bands[k]);
    }
    g.save();
    g.beginPath();
    g.rect(0, 0, view.width, view.height);
    g.clip();
    g.font = theme.font;
    g.textBaseline = 'middle';
    for (const b of shown) {
        g.fillStyle = theme.grid;
        g.fillRect(0, b.y - view.top + b.h - Math.ceil(GAP / 2), view.width, 1);
        if (b.through.length) {
            pale(g, b, layout, view, paint, theme);
        }
    }
    const drawn = bars(g, d, layout, view, paint, shown);
    fade(g, drawn.fades, drawn.open, paint, theme);
    ends(g, drawn.marks, theme);
    for (const b of shown) {
        if (b.hidden) {
            density(g, d, b, layout, view, theme);
        }
    }
    g.restore();
    return drawn.bars;
}

function pale(g, b, layout, view, paint, theme) {
    const px = view.width / (view.until - view.from);
    const x0 = Math.max(0, (layout.range[0] - view.from) * px);
    const x1 = Math.min(view.width, (layout.range[1] - view.from) * px);
    if (x1 <= x0) {
        return;
    }
    g.globalAlpha = 0.28;
    g.fillStyle = paint.group(b);
    g.fillRect(x0, b.paleY - view.top, x1 - x0, PALE - 2);
    g.globalAlpha = 1;
    g.fillStyle = theme.ink;
    g.fillText(`${b.through.length} throughout`, x0 + 6, b.paleY - view.top + PALE / 2 - 0.5);
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
        g.fillText(
            cut(g, sign + text, width - x - 6 - (b.h <= BAND_MIN + GAP && more ? 34 : 0)),
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
