/* What did not arrive, drawn: the same signs on every canvas.
 *
 *   lossRuns(series, hosts) → [{from, to, ppm, atMost}]     buckets that did not arrive whole, runs of equal kind
 *       joined; ms. What lies in front of a host's first data was not lost
 *   seriesOf(density) → starts and ends of an answer `lifetimes` as a series, for both
 *   holes(series, hosts) → {before: {until, text} | null, after: {from, text} | null, within: [{from, until, text}]}
 *       where no host had or has data; within: nothing was lost, and no agent ran
 *   stretches(answer) → [{from, until, kind, host, text, ppm, atMost, usual}]     of coverage, host by host; ms
 *       kind 'lost', or 'none': not kept, or the host said nothing; host: index into answer.hosts; usual: in front of
 *       its first data, or behind its end
 *   nothings(answer) → those of kind 'none' that all hosts share, with host -1; they are among stretches too
 *   nearest(hosts, from, to) → {from, to}: where data is closest to a range that has none, no longer than that;
 *       null: it has some, or there is none
 *   polled(answer) → names of the hosts whose starts and ends are polled
 *   drawLoss(ctx, x, y, w, h, ppm, atMost)           hatch, the denser the less arrived; at least 2 px wide
 *   drawNothing(ctx, x, y, w, h, label)              grey dots, with a label where it fits
 *   drawSince(ctx, x, y, w, h)                       over growth of longer than its bucket
 *   drawPolled(ctx, x, y, w)                         the dotted line of polled starts and ends
 *   redone()                                         after a change of the scheme: patterns are made anew */
import { theme } from './colour.js';
import { count } from './format.js';
import { clock, nsMs } from './time.js';

const FULL = 1000000;
const ROUNDED = 10; /* ppm */
const LATE_MS = 5000; /* data of a connected host may be so old */
const HALF = 499999; /* as dense as less than half, where buckets say no more */
const levelOf = (ppm) => (ppm >= 990000 ? 0 : ppm >= 900000 ? 1 : ppm >= 500000 ? 2 : ppm > 0 ? 3 : 4);
const GAPS = [16, 11, 8, 6, 4.5];
const FADE = [0.1, 0.2, 0.35, 0.5, 0.6];
const patterns = new Map();

export const redone = () => patterns.clear();

/* How much of a bucket can be there: hosts have nothing in front of their first data. Of those that have ended the
 * collector expects nothing behind their last. */
function most(hosts, from, to) {
    let [wanted, there] = [0, 0];
    for (const h of hosts) {
        const begin = Math.max(from, nsMs(h.first_ns) || from);
        const end = h.ended ? Math.min(to, nsMs(h.last_ns)) : to;
        const has = Math.max(0, end - begin);
        wanted += h.ended ? has : to - from;
        there += has;
    }
    return wanted > 0 ? (FULL * there) / wanted : FULL;
}

export const seriesOf = (d) => ({ ...d, n: d.present.length, step_ns: d.step_ms * 1e6 });

/* Of a bucket in which no host was measured nothing arrived, lost or not: coverage knows. */
function nothingLost(series, i, from, to) {
    if (series.hosts_in?.[i] !== 0) return false;
    if (series.present[i] >= FULL) return true;
    return Boolean(series.lost) && !series.lost.some((s) => s.to >= from && s.from <= to);
}

export function lossRuns(series, hosts = []) {
    const runs = [];
    const asked = hosts.filter((h) => !h.forgotten);
    const step = Number(series.step_ns) / 1e6;
    for (let i = 0; i < series.n; i++) {
        const ppm = series.present[i];
        const from = series.t0_ms + i * step;
        if (ppm === null || ppm === undefined || ppm >= FULL || nothingLost(series, i, from, from + step)) continue;
        const could = most(asked, from, from + step);
        if (could < FULL && ppm >= could - ROUNDED) continue;
        const last = runs[runs.length - 1];
        if (last && Math.abs(last.to - from) < step / 2 && levelOf(last.ppm) === levelOf(ppm)) {
            last.to = from + step;
            last.ppm = Math.min(last.ppm, ppm);
        } else {
            runs.push({ from, to: from + step, ppm, atMost: Boolean(series.at_most) });
        }
    }
    return runs;
}

/* Between first and last data. A bucket alone may lie between two samples. */
function unmeasured(series, from, to) {
    const step = Number(series.step_ns) / 1e6;
    const runs = [];
    for (let i = 0; series.hosts_in && i < series.n; i++) {
        const at = series.t0_ms + i * step;
        if (at < from || at + step > to || !nothingLost(series, i, at, at + step)) continue;
        const last = runs[runs.length - 1];
        if (last && Math.abs(last.until - at) < step / 2) last.until = at + step;
        else runs.push({ from: at, until: at + step, text: 'not measured' });
    }
    return runs.filter((r) => r.until - r.from >= Math.max(LATE_MS, 1.5 * step));
}

export function holes(series, hosts) {
    const asked = hosts.filter((h) => !h.forgotten);
    const step = Number(series.step_ns) / 1e6;
    const [from, to] = [series.t0_ms, series.t0_ms + series.n * step];
    const firsts = asked.map((h) => nsMs(h.first_ns)).filter((v) => v > 0);
    const lasts = asked.map((h) => (h.connected ? Infinity : nsMs(h.last_ns)));
    const first = firsts.length ? Math.min(...firsts) : NaN;
    const last = lasts.length ? Math.max(...lasts) : NaN;
    const ended = asked.length > 0 && asked.every((h) => h.ended);
    return {
        before: first > from ? { until: Math.min(first, to), text: `not kept before ${clock(first, 1000)}` } : null,
        after:
            last < to && last > 0
                ? { from: Math.max(last, from), text: `${ended ? 'ended' : 'silent since'} ${clock(last, 1000)}` }
                : null,
        within: unmeasured(series, first || from, Math.min(last || to, to - LATE_MS)),
    };
}

function tile(name, size, paint) {
    const ratio = globalThis.devicePixelRatio || 1;
    const id = name + '@' + ratio;
    let made = patterns.get(id);
    if (!made) {
        const canvas = document.createElement('canvas');
        canvas.width = canvas.height = Math.max(2, Math.round(size * ratio));
        const c = canvas.getContext('2d');
        c.scale(canvas.width / size, canvas.width / size);
        paint(c);
        made = { canvas, scale: size / canvas.width };
        patterns.set(id, made);
    }
    return made;
}

function fillTile(ctx, made, x, y, w, h) {
    const pattern = ctx.createPattern(made.canvas, 'repeat');
    pattern.setTransform(new DOMMatrix().scale(made.scale));
    ctx.fillStyle = pattern;
    ctx.fillRect(x, y, w, h);
}

export function drawLoss(ctx, x, y, w, h, ppm, atMost) {
    if (w < 2) [x, w] = [x - (2 - w) / 2, 2];
    const level = levelOf(ppm);
    const t = theme();
    const gap = GAPS[level];
    ctx.save();
    ctx.globalAlpha = FADE[level];
    ctx.fillStyle = t.ground;
    ctx.fillRect(x, y, w, h);
    ctx.globalAlpha = 0.1;
    ctx.fillStyle = t.hatch;
    ctx.fillRect(x, y, w, h);
    ctx.globalAlpha = w < 4 ? 0.9 : 0.75;
    if (w < 4) {
        ctx.fillRect(x, y, w, h);
    } else {
        fillTile(
            ctx,
            tile(`loss${level}${atMost}`, gap, (c) => {
                c.strokeStyle = t.hatch;
                c.lineWidth = 1.1;
                c.beginPath();
                for (const o of [-gap, 0, gap]) {
                    c.moveTo(o - 1, gap + 1);
                    c.lineTo(o + gap + 1, -1);
                    if (atMost) {
                        c.moveTo(o - 1, -1);
                        c.lineTo(o + gap + 1, gap + 1);
                    }
                }
                c.stroke();
            }),
            x,
            y,
            w,
            h,
        );
    }
    ctx.restore();
}

export function drawNothing(ctx, x, y, w, h, label) {
    if (w <= 0) return;
    const t = theme();
    ctx.save();
    fillTile(
        ctx,
        tile('dots', 5, (c) => {
            c.fillStyle = t.faint;
            c.fillRect(2, 2, 1, 1);
        }),
        x,
        y,
        w,
        h,
    );
    ctx.font = '11px system-ui, sans-serif';
    const wide = label ? ctx.measureText(label).width : 0;
    if (label && wide + 14 < w && h > 18) {
        const left = Math.round(x + (w - wide) / 2);
        ctx.fillStyle = t.ground;
        ctx.fillRect(left - 5, y + h / 2 - 9, wide + 10, 18);
        ctx.fillStyle = t.dim;
        ctx.textBaseline = 'middle';
        ctx.fillText(label, left, y + h / 2);
    }
    ctx.restore();
}

/* Growth of longer than its bucket: dots over a faded value. */
export function drawSince(ctx, x, y, w, h) {
    ctx.save();
    ctx.globalAlpha = 0.6;
    ctx.fillStyle = theme().ground;
    ctx.fillRect(x, y, w, h);
    ctx.restore();
    drawNothing(ctx, x, y, w, h, '');
}

export function drawPolled(ctx, x, y, w) {
    ctx.save();
    ctx.strokeStyle = theme().dim;
    ctx.setLineDash([2, 3]);
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(x + w, y);
    ctx.stroke();
    ctx.restore();
}

/* Coverage tells what of a stretch is missing in numbers; its share is the least of the buckets it lies in. */
function share(density, from, until) {
    const n = density?.present?.length ?? 0;
    const at = (ms) => Math.max(0, Math.min(n - 1, Math.floor((ms - density.t0_ms) / density.step_ms)));
    const some = n ? density.present.slice(at(from), at(until) + 1) : [];
    return some.length ? some.reduce((a, b) => Math.min(a, b), 999999) : HALF;
}

function lost(span) {
    const parts = [
        [span.events, 'events'],
        [span.ticks, 'samples'],
    ].filter(([n]) => Number(n) > 0);
    return parts.map(([n, unit]) => `${count(Number(n))} ${unit}`).join(', ') || 'something';
}

/* Of each host the stretches between its first data and its last in which no agent ran. `measured` tells them by
 * turns: so many buckets not, so many measured. */
function unseen(density, hosts) {
    const { measured = [], t0_ms, step_ms, lost } = density;
    const list = [];
    measured.forEach((turns, host) => {
        const [first, last] = [nsMs(hosts[host]?.first_ns), nsMs(hosts[host]?.last_ns)];
        let at = t0_ms;
        turns.forEach((n, k) => {
            const [from, until] = [at, at + n * step_ms];
            at = until;
            if (k % 2 || from < first || until > last || n * step_ms < Math.max(LATE_MS, 1.5 * step_ms)) return;
            if (lost?.some((s) => s.to >= from && s.from <= until)) return;
            list.push({ host, from, until, text: `${hosts[host].name}: not measured` });
        });
    });
    return list;
}

/* Where nothing of any host is kept or has come. */
export function nothings(answer) {
    const [since, until] = [nsMs(answer.since_ns), nsMs(answer.until_ns)];
    const hosts = (answer.hosts ?? []).filter((h) => !Number.isNaN(nsMs(h.first_ns)));
    if (!hosts.length) return [{ from: since, until, kind: 'none', host: -1, text: 'no data' }];
    const first = hosts.reduce((a, h) => Math.min(a, nsMs(h.first_ns)), Infinity);
    const last = hosts.reduce((a, h) => Math.max(a, nsMs(h.last_ns)), -Infinity);
    const words = hosts.some((h) => h.connected)
        ? 'no data yet'
        : `${hosts.every((h) => h.ended) ? 'ended' : 'silent since'} ${clock(last, 1000)}`;
    return [
        { from: since, until: Math.min(until, first), text: `not kept before ${clock(first, 1000)}` },
        { from: Math.max(since, last), until, text: words, late: true },
    ]
        .filter((n) => n.until - n.from > (n.late ? LATE_MS : 0))
        .map((n) => ({ ...n, kind: 'none', host: -1 }));
}

export function stretches(answer) {
    const [since, until] = [nsMs(answer.since_ns), nsMs(answer.until_ns)];
    const list = [];
    const put = (host, kind, from, to, text, more) => {
        if (to > from && to > since && from < until) {
            list.push({ from: Math.max(from, since), until: Math.min(to, until), kind, host, text, ...more });
        }
    };
    let [begin, end] = [since, until]; /* where any host has data */
    for (const n of nothings(answer)) {
        put(-1, 'none', n.from, n.until, n.text);
        if (n.late) end = n.from;
        else begin = n.until;
    }
    const density = answer.lifetimes?.density;
    if (density?.hosts_in) {
        for (const n of holes(seriesOf(density), answer.hosts).within) put(-1, 'none', n.from, n.until, n.text);
        for (const n of unseen(density, answer.hosts)) {
            put(n.host, 'none', n.from, n.until, n.text, { usual: answer.hosts.length > 1 });
        }
    }
    for (const c of answer.coverage?.hosts ?? []) {
        const h = answer.hosts[c.host];
        for (const s of c.spans ?? []) {
            const text = `${c.at_most ? '≥ ' : ''}${lost(s)} lost on ${h.name}`;
            const [from, to] = [nsMs(s.first_ns), nsMs(s.last_ns)];
            put(c.host, 'lost', from, to, text, { ppm: share(answer.lifetimes?.density, from, to), atMost: c.at_most });
        }
        const [first, last] = [nsMs(h.first_ns), nsMs(h.last_ns)];
        if (Number.isNaN(first)) {
            put(c.host, 'none', begin, end, `no data of ${h.name}`);
            continue;
        }
        put(c.host, 'none', begin, first, `${h.name}: not kept before ${clock(first, 1000)}`, { usual: true });
        if (h.connected) {
            if (end - last > LATE_MS) put(c.host, 'none', last, end, `${h.name}: no data yet`);
        } else {
            const word = h.ended ? 'ended' : 'silent since';
            put(c.host, 'none', last, end, `${h.name}: ${word} ${clock(last, 1000)}`, { usual: h.ended });
        }
    }
    return list;
}

export function nearest(hosts, from, to) {
    let best = null;
    for (const h of hosts) {
        const [first, last] = [nsMs(h.first_ns), nsMs(h.last_ns)];
        if (!(last >= first)) continue;
        const away = Math.max(first - to, from - last);
        if (away <= 0) return null;
        if (best && best.away <= away) continue;
        const span = Math.min(to - from, last - first + 1);
        best = first >= to ? { away, from: first, to: first + span } : { away, from: last + 1 - span, to: last + 1 };
    }
    return best && { from: best.from, to: best.to };
}

export const polled = (answer) => (answer.hosts ?? []).filter((h) => h.polled).map((h) => h.name);
