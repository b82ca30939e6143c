/* The timeline as a control: axis and density of starts on top, lanes that scroll, CPU area below, all on one axis.
 *
 * plot = lanesPlot({...}); append plot.node, then plot.show({...}).
 *   colour(name)          CSS colour of an image
 *   onRange(from, until)  ms since 1970: the user zoomed or panned, and rests
 *   onBack()              double click
 *   onSelect(row)         -1: nothing
 *   tip(what)             text for what hit() found
 *   picture               instead of the last and all keys: what it is a picture of; without CPU below
 * Drag = zoom in, shift+drag = pan, wheel = zoom at the pointer; over the labels it scrolls.
 * Nothing is interpolated: what lies outside the range that was asked for is grey, what was lost is hatched, over bars
 * that are faded there (around a gap only survivors are known). */

import { mix, onScheme, theme } from './colour.js';
import { el } from './el.js';
import { drawLoss, drawNothing, drawPolled, drawSince, redone } from './hatch.js';
import { draw, drawLabels, finish, hit, pack, padOf, PITCH, rowY } from './lanes.js';
import { pixel, raster } from './raster.js';
import { spanText, ticks } from './time.js';

const GUTTER = 150;
const GUTTER_NARROW = 84;
const HEAD = 58; /* axis and density of starts */
const AXIS = 18;
const FOOT = 84; /* CPU area */
const REST_MS = 350; /* after the last turn of the wheel */
const SETTLE_MS = 120; /* likewise: lanes are packed anew for the new width of a pixel */
const COARSE = 1; /* or at once where it is half or double */
const BRUSH_MIN = 5; /* px */
const SPAN_MIN = 2; /* ms: what one can zoom to */
const SOME_PPM = 900000; /* one of several hosts says nothing: as dense as a small loss */
const SCALE = 24; /* colours of CPU time and exit codes */

/* A canvas of w × h px, blank; made anew only when its size changes. */
function size(canvas, w, h) {
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(w * ratio), Math.round(h * ratio)];
    if (canvas.width !== wide || canvas.height !== high) {
        canvas.width = wide;
        canvas.height = high;
        canvas.style.width = `${w}px`;
        canvas.style.height = `${h}px`;
    }
    const g = canvas.getContext('2d');
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, w, h);
    return g;
}

/* Colours of bars: by image, by CPU time or by exit code. */
function paintOf(d, by, colour, t) {
    const of = new Uint32Array(d.n);
    const paint = (colours, group) => ({ pixels: Uint32Array.from(colours, (c) => pixel(c)), of, group });
    if (by === 'image') {
        of.set(d.name);
        const colours = d.names.map(colour);
        return paint(colours, groupColour(d, colours));
    }
    const colours = [t.dim];
    if (by === 'cpu') {
        for (let k = 0; k < SCALE; k++) {
            colours.push(shade(k / (SCALE - 1)));
        }
        for (let i = 0; i < d.n; i++) {
            const ms = d.cpu[i];
            /* 0.1 ms to 100 s, by logarithm; grey if not known */
            of[i] =
                ms === null
                    ? 0
                    : 1 + Math.round((SCALE - 1) * Math.min(1, Math.max(0, (Math.log10(Math.max(ms, 1e-4)) + 1) / 6)));
        }
    } else {
        colours.push(t.dark ? '#5fcf80' : '#1a7f37', t.bad);
        for (let i = 0; i < d.n; i++) {
            of[i] = d.exit[i] === null ? 0 : d.failed[i] ? 2 : 1;
        }
    }
    return paint(colours, () => t.dim);
}

/* From blue over green and yellow to red. */
const HEAT = ['#2256c3', '#22b5c3', '#22c36f', '#7bc322', '#c38222'];
function shade(share) {
    const k = Math.min(HEAT.length - 2, Math.floor(share * (HEAT.length - 1)));
    return mix(HEAT[k], HEAT[k + 1], share * (HEAT.length - 1) - k);
}

function groupColour(d, colours) {
    return (b) => (b.kind === 'image' ? colours[d.name[(b.rows.length ? b.rows : b.through)[0]]] : '#888888');
}

export function lanesPlot(o) {
    const canvas = () => el('canvas', { 'aria-hidden': true });
    const [head, body, foot, over] = [canvas(), canvas(), canvas(), canvas()];
    const sizer = el('div', { class: 'lanes-sizer' }, body);
    const scroll = el('div', { class: 'lanes-scroll' }, sizer);
    const tip = el('div', { class: 'lanes-tip', hidden: true });
    const node = el(
        'div',
        {
            class: 'lanes',
            tabindex: o.picture ? null : '0',
            role: o.picture ? 'img' : 'application',
            'aria-label':
                o.picture ?? 'Timeline of processes. Arrows move from bar to bar, Enter opens, f fits, 0 goes back.',
        },
        head,
        scroll,
        o.picture ? null : foot,
        over,
        tip,
    );
    const s = {
        d: null,
        layout: null,
        paint: null,
        theme: null,
        losses: [],
        series: null,
        polled: null,
        group: 'image',
        by: 'image',
        folded: new Set(),
        order: [],
        from: 0,
        until: 1,
        width: 800,
        gutter: GUTTER,
        selected: -1,
        hover: -1,
        top: 0,
        drag: null,
        resting: 0,
        frame: 0,
        hovering: 0,
        settling: 0,
        over: false,
        scriptMs: 0,
        cursor: null,
        high: 0 /* of what scrolls, and of all; looked at when sizes change, not in each frame */,
        whole: 0,
        box: { left: 0, top: 0 },
        pictures: new Map(),
    };

    const view = () => ({
        from: s.from - s.d.t0,
        until: s.until - s.d.t0,
        width: s.width,
        height: s.high,
        top: s.top,
    });

    /* The pixels of a part's time axis, blank. */
    function blank(part, height) {
        const ratio = window.devicePixelRatio || 1;
        let r = s.pictures.get(part);
        if (!r || r.of !== `${s.width} ${height} ${ratio}`) {
            r = Object.assign(raster(s.width, height, ratio), { of: `${s.width} ${height} ${ratio}`, ratio });
            s.pictures.set(part, r);
        }
        r.clear();
        return r;
    }

    function relayout() {
        const pad = padOf((s.until - s.from) / s.width);
        s.layout = pack(s.d, { group: s.group, pad, folded: s.folded, order: s.order });
        if (s.group !== 'tree') {
            s.order = s.layout.bands.map((b) => b.key);
        }
        sizer.style.height = `${s.layout.height}px`;
    }

    /* As high as its content, within reason; growing only while one looks, so that nothing jumps. */
    function fitHeight(anew) {
        const most = Math.max(200, window.innerHeight * 0.58);
        const want = Math.min(most, Math.max(120, s.layout.height + 4));
        if (anew || want > s.high) {
            scroll.style.height = `${Math.round(want)}px`;
            look();
        }
    }

    function look() {
        s.high = scroll.clientHeight;
        s.whole = node.clientHeight;
        s.box = scroll.getBoundingClientRect();
    }

    function measure() {
        const w = scroll.clientWidth;
        look();
        s.gutter = w < 640 ? GUTTER_NARROW : GUTTER;
        s.width = Math.max(50, w - s.gutter);
        s.theme = { ...theme(), font: `11px ${getComputedStyle(node).fontFamily}` };
    }

    const xOf = (ms) => ((ms - s.from) * s.width) / (s.until - s.from);

    /* What was lost, over `height` px or over the bands it concerns; at least 2 px wide. */
    function hatch(g, losses, height, bandsOf) {
        for (const l of losses) {
            if (l.usual && !bandsOf && s.d.hosts.length > 1) continue; /* the others are all there */
            const x0 = Math.max(0, xOf(l.from));
            const x1 = Math.min(s.width, Math.max(xOf(l.until), xOf(l.from) + 2));
            if (x1 > x0) {
                for (const [y, h] of bandsOf ? bandsOf(l) : [[0, height]]) {
                    if (l.kind === 'lost') drawLoss(g, x0, y, x1 - x0, h, l.ppm, l.atMost);
                    else if (l.host >= 0 && s.d.hosts.length > 1 && !bandsOf)
                        drawLoss(g, x0, y, x1 - x0, h, SOME_PPM, false);
                    else nothing(g, x0, y, x1 - x0, h);
                }
            }
        }
    }

    function nothing(g, x, y, w, h) {
        g.globalAlpha = 0.6;
        g.fillStyle = s.theme.ground;
        g.fillRect(x, y, w, h);
        g.globalAlpha = 1;
        drawNothing(g, x, y, w, h, '');
    }

    /* What lies outside the range that was asked for, and the lines of the axis. */
    function ground(r, high = r.h) {
        const at = (ms) => Math.round(xOf(ms) * r.ratio);
        const beyond = pixel(s.theme.grid, 0.5);
        r.box(0, at(s.d.t0 + s.d.range[0]), 0, r.h, beyond);
        r.box(at(s.d.t0 + s.d.range[1]), r.w, 0, r.h, beyond);
        const grid = pixel(s.theme.grid);
        for (const { ms } of s.ticks) r.box(at(ms), at(ms) + Math.max(1, Math.round(r.ratio)), 0, high, grid);
    }

    function drawHead() {
        const g = size(head, s.width + s.gutter, HEAD);
        const t = s.d.density;
        g.font = s.theme.font;
        g.textBaseline = 'middle';
        g.fillStyle = s.theme.dim;
        g.fillText('starts', 4, AXIS + (HEAD - AXIS) / 2);
        const r = blank('head', HEAD);
        const most = t && t.starts.length ? t.starts.reduce((a, b) => Math.max(a, b), 1) : 0;
        ground(r);
        if (most) bucketBars(r, t, most);
        r.put(g, s.gutter, 0);
        g.translate(s.gutter, 0);
        g.save();
        g.beginPath();
        g.rect(0, 0, s.width, HEAD);
        g.clip();
        g.fillStyle = s.theme.ink;
        for (const { ms, text } of s.ticks) {
            const x = xOf(ms);
            if (x + g.measureText(text).width + 4 < s.width) {
                g.fillText(text, x + 3, AXIS / 2);
            }
        }
        if (most) {
            g.fillStyle = s.theme.dim;
            g.textAlign = 'right';
            g.fillText(`${most} in ${spanText(t.step_ms)}`, s.width - 4, AXIS + 7);
            g.textAlign = 'left';
        }
        g.save();
        g.translate(0, AXIS);
        hatch(g, s.losses, HEAD - AXIS);
        g.restore();
        if (s.polled !== null) {
            /* starts and ends were polled: what lived between two looks is not seen */
            drawPolled(g, 0, HEAD - 0.5, s.width);
            words(g, `${s.polled}shorter than a sample is not seen here`, 6, AXIS + 8);
        }
        note(g);
        g.restore();
    }

    function bucketBars(r, t, most) {
        const room = (HEAD - AXIS - 4) * r.ratio;
        const dim = pixel(s.theme.dim);
        for (let i = 0; i < t.starts.length; i++) {
            const x0 = Math.round(xOf(t.t0_ms + i * t.step_ms) * r.ratio);
            const x1 = Math.round(xOf(t.t0_ms + (i + 1) * t.step_ms) * r.ratio);
            const h = Math.max(1, Math.round((room * t.starts[i]) / most));
            if (t.starts[i] > 0) r.box(x0, Math.max(x0 + 1, x1 - (x1 - x0 > 3 ? 1 : 0)), r.h - h, r.h, dim);
        }
    }

    function words(g, text, x, y) {
        g.fillStyle = s.theme.ground;
        g.fillRect(x - 3, y - 7, g.measureText(text).width + 6, 14);
        g.fillStyle = s.theme.ink;
        g.fillText(text, x, y);
    }

    /* One line of words for the widest stretch of each kind, so that a hatch says why. */
    function note(g) {
        const said = new Set();
        for (const l of s.losses) {
            if (l.usual && s.group !== 'host' && s.d.hosts.length > 1) continue;
            const x0 = Math.max(0, xOf(l.from));
            const x1 = Math.min(s.width, xOf(l.until));
            const w = g.measureText(l.text).width + 10;
            if (!said.has(l.text) && x1 - x0 > w) {
                said.add(l.text);
                words(g, l.text, x0 + 6, AXIS + 23);
            }
        }
    }

    function drawBody() {
        const g = size(body, s.width + s.gutter, s.high);
        const v = view();
        const r = blank('body', s.high);
        ground(r, Math.round(Math.min(v.height, s.layout.height - v.top) * r.ratio));
        const drawn = draw(r, s.d, s.layout, v, s.paint, s.theme);
        r.put(g, s.gutter, 0);
        drawLabels(g, s.layout, v, s.gutter, s.theme, (b) => b.label);
        g.translate(s.gutter, 0);
        finish(g, drawn, s.layout, v, s.theme);
        g.save();
        g.beginPath();
        g.rect(0, 0, s.width, Math.min(v.height, s.layout.height - v.top));
        g.clip();
        hatch(
            g,
            s.losses,
            v.height,
            s.group === 'host'
                ? (l) =>
                      s.layout.bands
                          .filter((b) => l.host < 0 || b.key === s.d.hosts[l.host])
                          .map((b) => [b.y - v.top, b.h])
                : null,
        );
        g.restore();
    }

    function drawFoot() {
        const g = size(foot, s.width + s.gutter, FOOT);
        const c = s.series;
        g.font = s.theme.font;
        g.textBaseline = 'middle';
        g.fillStyle = s.theme.dim;
        g.fillText('CPU', 4, FOOT / 2);
        if (!c) {
            return;
        }
        const r = blank('foot', FOOT);
        ground(r);
        const room = (FOOT - 6) * r.ratio;
        const since = [];
        let most = 0;
        for (let i = 0; i < c.n; i++) {
            if (c.reaches?.[i]) continue; /* growth of longer than its bucket */
            most = Math.max(
                most,
                c.groups.reduce((sum, x) => sum + (x.avg[i] ?? 0), 0),
            );
        }
        const inks = c.groups.map((x) => pixel(x.colour));
        for (let i = 0; i < c.n; i++) {
            const x0 = Math.round(xOf(c.t0 + i * c.step) * r.ratio);
            const x1 = Math.max(x0 + 1, Math.round(xOf(c.t0 + (i + 1) * c.step) * r.ratio));
            if (x1 <= 0 || x0 >= r.w) {
                continue;
            }
            let y = r.h;
            for (const [k, x] of c.groups.entries()) {
                const top = y - ((x.avg[i] ?? 0) / (most || 1)) * room;
                r.box(x0, x1, Math.round(top), Math.round(y), inks[k]);
                y = top;
            }
            if (c.reaches?.[i]) since.push([x0 / r.ratio, Math.max(2, (x1 - x0) / r.ratio)]);
        }
        r.put(g, s.gutter, 0);
        g.translate(s.gutter, 0);
        g.save();
        g.beginPath();
        g.rect(0, 0, s.width, FOOT);
        g.clip();
        for (const [x, w] of since) drawSince(g, x, 0, w, FOOT);
        hatch(g, c.losses, FOOT);
        g.fillStyle = s.theme.ink;
        g.fillText(`${most.toFixed(most < 10 ? 1 : 0)} %`, 4, 8);
        g.restore();
    }

    /* What follows the pointer; the bars stay as they are. */
    function drawOver() {
        if (!s.d) return;
        const some = s.selected >= 0 || s.hover >= 0 || s.cursor !== null || s.drag?.kind === 'brush';
        if (!some && !s.over) return;
        s.over = some;
        const h = s.whole;
        const g = size(over, s.width + s.gutter, h);
        g.translate(s.gutter, 0);
        for (const [row, width] of [
            [s.selected, 2],
            [s.hover, 1],
        ]) {
            const y = row >= 0 ? rowY(s.layout, row) : -1;
            const top = y - s.top;
            if (y >= 0 && top > -PITCH && top < s.high) {
                const x0 = Math.max(-2, xOf(s.d.t0 + s.d.start[row]));
                const x1 = Math.min(s.width + 2, xOf(s.d.t0 + Math.min(s.d.end[row], s.d.range[1])));
                g.strokeStyle = s.theme.ink;
                g.lineWidth = width;
                g.strokeRect(x0 - 2, HEAD + top - 2, Math.max(1, x1 - x0) + 4, 10);
            }
        }
        if (s.cursor !== null) {
            g.fillStyle = s.theme.dim;
            g.fillRect(Math.round(s.cursor), AXIS, 1, h);
        }
        if (s.drag && s.drag.kind === 'brush') {
            g.globalAlpha = 0.2;
            g.fillStyle = s.theme.select;
            g.fillRect(Math.min(s.drag.x0, s.drag.x), 0, Math.abs(s.drag.x - s.drag.x0), h);
            g.globalAlpha = 1;
        }
    }

    function frame() {
        s.frame = 0;
        if (!s.d || !node.isConnected) {
            return;
        }
        const began = performance.now();
        const pad = padOf((s.until - s.from) / s.width);
        if (s.layout.pad !== pad && (!s.settling || Math.abs(Math.log2(pad / s.layout.pad)) >= COARSE)) {
            relayout();
        }
        s.ticks = ticks(s.from, s.until, Math.max(2, Math.floor(s.width / 90)));
        drawHead();
        drawBody();
        if (!o.picture) drawFoot();
        drawOver();
        s.scriptMs = performance.now() - began;
    }

    function redraw() {
        s.frame ||= requestAnimationFrame(frame);
    }

    function rest() {
        clearTimeout(s.resting);
        clearTimeout(s.settling);
        s.settling = setTimeout(() => {
            s.settling = 0;
            redraw();
        }, SETTLE_MS);
        s.resting = setTimeout(() => o.onRange(s.from, s.until), REST_MS);
    }

    function setView(from, until) {
        const span = Math.max(SPAN_MIN, until - from);
        s.from = from;
        s.until = from + span;
        redraw();
    }

    function zoom(by, x = s.width / 2) {
        const at = s.from + ((s.until - s.from) * x) / s.width;
        const span = Math.max(SPAN_MIN, (s.until - s.from) * by);
        setView(at - (span * x) / s.width, at - (span * x) / s.width + span);
        rest();
    }

    function pan(by) {
        const d = (s.until - s.from) * by;
        setView(s.from + d, s.until + d);
        rest();
    }

    function select(row, tell = true) {
        s.selected = row;
        const y = row >= 0 && s.layout ? rowY(s.layout, row) : -1;
        if (y >= 0 && (y < s.top || y > s.top + s.high - PITCH)) {
            scroll.scrollTop = Math.max(0, y - s.high / 2);
        }
        redraw();
        if (tell) {
            o.onSelect(row);
        }
    }

    /* The next bar from the selected one: in time within its group, or in the group above or below. */
    function step(dx, dy) {
        const l = s.layout;
        const bands = l.bands.filter((b) => b.rows.some((i) => l.lane[i] >= 0) || b.node >= 0);
        if (!bands.length) {
            return;
        }
        const inBand = (b) => [
            ...(b.node >= 0 ? [b.node] : []),
            ...(b.folded ? [] : b.rows.filter((i) => l.lane[i] >= 0)),
        ];
        const k = bands.findIndex((b) => inBand(b).includes(s.selected));
        if (k < 0) {
            const seen = inBand(bands[0]).find((i) => s.d.end[i] >= s.from - s.d.t0);
            select(seen ?? inBand(bands[0])[0]);
            return;
        }
        if (dy) {
            const rows = inBand(bands[Math.max(0, Math.min(bands.length - 1, k + dy))]);
            const t = s.d.start[s.selected];
            select(rows.reduce((a, b) => (Math.abs(s.d.start[b] - t) < Math.abs(s.d.start[a] - t) ? b : a)));
            return;
        }
        const rows = inBand(bands[k]).sort((a, b) => a - b);
        select(rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(s.selected) + dx))]);
    }

    const local = (e) => {
        return [e.clientX - s.box.left - s.gutter, e.clientY - s.box.top];
    };

    function under(e) {
        const [x, y] = local(e);
        if (!s.layout || x < -s.gutter || x > s.width || y < 0 || y > s.high) {
            return null;
        }
        return hit(s.d, s.layout, view(), x, y + s.top);
    }

    function hover(e) {
        if (!s.d) {
            return;
        }
        const [x, y] = local(e);
        const h = x >= 0 ? under(e) : null;
        s.hover = h ? h.row : -1;
        s.cursor = x >= 0 && x <= s.width ? x : null;
        const text = h ? o.tip(h) : '';
        tip.hidden = !text;
        if (text) {
            tip.textContent = text;
            const right = x > s.width * 0.6;
            tip.style.transform =
                `translate(${right ? x + s.gutter - 12 : x + s.gutter + 14}px,${y + HEAD + 14}px)` +
                (right ? ' translateX(-100%)' : '');
        }
        s.hovering ||= requestAnimationFrame(() => {
            s.hovering = 0;
            look(); /* where the plot lies can change with what is above it */
            drawOver();
        });
    }

    node.addEventListener('pointerenter', look);
    node.addEventListener('pointerdown', (e) => {
        look();
        const [x] = local(e);
        if (!s.d || e.button !== 0 || x > s.width) {
            return;
        }
        if (x < 0) {
            const h = under(e);
            if (h?.band.foldable) {
                fold(h.band.key);
            }
            return;
        }
        s.drag = { kind: e.shiftKey ? 'pan' : 'brush', x0: x, x, from: s.from, until: s.until };
        node.setPointerCapture(e.pointerId);
    });
    node.addEventListener('pointermove', (e) => {
        if (!s.drag) {
            hover(e);
            return;
        }
        s.drag.x = Math.max(0, Math.min(s.width, local(e)[0]));
        if (s.drag.kind === 'pan') {
            const d = ((s.drag.x0 - s.drag.x) * (s.drag.until - s.drag.from)) / s.width;
            setView(s.drag.from + d, s.drag.until + d);
        } else {
            drawOver();
        }
    });
    node.addEventListener('pointerup', (e) => {
        const { drag } = s;
        s.drag = null;
        if (!drag) {
            return;
        }
        if (Math.abs(drag.x - drag.x0) < BRUSH_MIN) {
            select(under(e)?.row ?? -1);
            return;
        }
        if (drag.kind === 'brush') {
            const ms = (x) => s.from + ((s.until - s.from) * x) / s.width;
            setView(ms(Math.min(drag.x0, drag.x)), ms(Math.max(drag.x0, drag.x)));
        }
        tip.hidden = true;
        o.onRange(s.from, s.until);
    });
    node.addEventListener('pointercancel', () => {
        s.drag = null;
        redraw();
    });
    node.addEventListener('pointerleave', () => {
        s.hover = -1;
        s.cursor = null;
        tip.hidden = true;
        redraw();
    });
    node.addEventListener('dblclick', () => o.onBack());
    node.addEventListener(
        'wheel',
        (e) => {
            if (!s.frame) look();
            if (!s.d || local(e)[0] < 0 || (o.picture && !e.ctrlKey)) {
                return;
            }
            e.preventDefault();
            if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
                pan(Math.sign(e.deltaX || e.deltaY) * 0.1);
            } else {
                zoom(e.deltaY > 0 ? 1.25 : 0.8, local(e)[0]);
            }
        },
        { passive: false },
    );
    scroll.addEventListener('scroll', () => {
        s.top = scroll.scrollTop;
        redraw();
    });
    const resize = new ResizeObserver(() => {
        measure();
        redraw();
    });
    resize.observe(node);
    function recolour() {
        if (!node.isConnected) {
            return;
        }
        redone();
        measure();
        if (s.d) {
            s.paint = paintOf(s.d, s.by, o.colour, s.theme);
            redraw();
        }
    }
    const stopScheme = onScheme(recolour);

    function fold(key) {
        if (!s.folded.delete(key)) {
            s.folded.add(key);
        }
        relayout();
        redraw();
    }

    return {
        node,
        redraw,
        select,
        zoom,
        pan,
        step,
        recolour,
        selected: () => s.selected,
        scriptMs: () => s.scriptMs,
        /* What is on the screen, for tests: {bars in lanes, bands, y of a row or -1}. */
        layout: () => s.layout,
        place: (row) => ({ x: xOf(s.d.t0 + s.d.start[row]) + s.gutter, y: rowY(s.layout, row) - s.top + HEAD }),
        /* d: load()ed answer; from, until: ms since 1970 in sight; losses: [{from, until, kind, host, text}];
         * polled: whose starts and ends are polled, or null. */
        show({ d, from, until, losses, polled, group, by }) {
            const regroup = group !== s.group || !s.d;
            Object.assign(s, { d, losses, polled, group, by, from, until, hover: -1 });
            if (regroup) {
                s.order = [];
                scroll.scrollTop = 0;
            }
            measure();
            s.paint = paintOf(d, by, o.colour, s.theme);
            relayout();
            fitHeight(regroup);
            if (s.selected >= d.n) {
                s.selected = -1;
            }
            redraw();
        },
        regroup(group, by) {
            if (s.d) {
                if (group !== s.group) scroll.scrollTop = 0;
                Object.assign(s, { group, by, order: [] });
                s.paint = paintOf(s.d, by, o.colour, s.theme);
                relayout();
                fitHeight(true);
                redraw();
            }
        },
        setSeries(series) {
            s.series = series;
            redraw();
        },
        foldAll() {
            const keys = s.layout.bands.filter((b) => b.foldable).map((b) => b.key);
            s.folded = s.folded.size ? new Set() : new Set(keys);
            relayout();
            redraw();
        },
        destroy() {
            clearTimeout(s.resting);
            clearTimeout(s.settling);
            resize.disconnect();
            stopScheme();
            s.d = s.layout = s.paint = null;
        },
    };
}
