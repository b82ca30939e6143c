/* Figures for people: right-aligned in tables, of even width, never more digits than mean something. A value that is
 * not there is '–', never 0.
 *
 *   count(1234567) → '1,234,567'    bytes(n) → '1.2 GiB'     percent(v) → '38.2 %'   ppm(999700) → '99.97 %'
 *   value(metric, v) → as its unit wants; metric: its name       unitOf(metric) → 'ns' | 'bytes' | 'percent' | 'count'
 *   rate(metric, v) → of a value per second: '1.5 MiB/s', '38 %' for CPU time
 *   valueTicks(from, to, n, binary) → [v]    round marks of an axis
 *   axis(metric, v, rates) → shorter, for axes        title(metric) → 'CPU', 'memory', … as columns are headed */
import { short } from './time.js';

export const NONE = '–';
const missing = (v) => v === null || v === undefined || Number.isNaN(v);

export function count(v) {
    return missing(v) ? NONE : String(Math.round(v)).replace(/\B(?=(\d{3})+$)/g, ',');
}

export function bytes(v) {
    if (missing(v)) return NONE;
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
    let n = Math.abs(v);
    let i = 0;
    while (n >= 999.5 && i < units.length - 1) [n, i] = [n / 1024, i + 1];
    return (v < 0 ? '−' : '') + (i === 0 || n >= 99.95 ? Math.round(n) : n.toFixed(1)) + ' ' + units[i];
}

export function percent(v) {
    if (missing(v)) return NONE;
    const a = Math.abs(v);
    return (a >= 999.5 ? count(v) : a >= 99.95 ? v.toFixed(0) : a > 0 && a < 0.05 ? '<0.1' : v.toFixed(1)) + ' %';
}

/* Never rounded up to 100: what was lost is seen. */
export function ppm(v) {
    if (missing(v)) return NONE;
    return v >= 1e6 ? '100 %' : (Math.floor(v / 100) / 100).toFixed(2) + ' %';
}

export function small(v) {
    if (missing(v)) return NONE;
    const a = Math.abs(v);
    if (a >= 1e9) return (v / 1e9).toFixed(a >= 1e10 ? 0 : 1) + ' G';
    if (a >= 1e6) return (v / 1e6).toFixed(a >= 1e7 ? 0 : 1) + ' M';
    if (a >= 1e4) return (v / 1e3).toFixed(a >= 1e5 ? 0 : 1) + ' k';
    return a >= 100 || Number.isInteger(v) ? count(v) : v.toFixed(1);
}

const TIMES = new Set(['cpu_time', 'kernel_time', 'user_time', 'agent.callback_p99']);

export function unitOf(metric) {
    if (metric === 'cpu_percent') return 'percent';
    if (TIMES.has(metric)) return 'ns';
    return /bytes|working_set|_pool$/.test(metric) ? 'bytes' : 'count';
}

export function value(metric, v) {
    if (missing(v)) return NONE;
    switch (unitOf(metric)) {
        case 'percent':
            return percent(v);
        case 'ns':
            return short(v / 1e6);
        case 'bytes':
            return bytes(v);
        default:
            return metric === 'affinity_mask' ? '0x' + v.toString(16) : small(v);
    }
}

export function rate(metric, perSecond) {
    if (missing(perSecond)) return NONE;
    if (unitOf(metric) === 'ns') return percent(perSecond / 1e7);
    return (unitOf(metric) === 'bytes' ? bytes(perSecond) : small(perSecond)) + '/s';
}

export const axis = (metric, v, rates) =>
    v === 0 ? '0' : (rates ? rate(metric, v) : value(metric, v)).replace('.0 ', ' ');

const TITLES = {
    cpu_percent: 'CPU',
    cpu_time: 'CPU time',
    working_set_size: 'memory',
    private_bytes: 'private',
    read_bytes: 'read',
    write_bytes: 'written',
    thread_count: 'threads',
    handle_count: 'handles',
};

export const title = (metric) => (Object.hasOwn(TITLES, metric) ? TITLES[metric] : metric.replace(/_/g, ' '));

/* Round steps: of bytes in powers of two, of the rest in 1, 2, 5. At most n, but one above the axis at least. */
export function valueTicks(from, to, n, binary) {
    const raw = (to - from) / Math.max(1, n);
    if (!(raw > 0)) return [from];
    const base = binary ? 2 ** (10 * Math.floor(Math.log2(raw) / 10)) : 10 ** Math.floor(Math.log10(raw));
    const factors = binary ? [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] : [0.5, 1, 2, 5, 10];
    let at = factors.findIndex((f) => f * base >= raw);
    while (at > 0 && factors[at] * base > (to - from) * 0.95) at--;
    const step = factors[at] * base;
    const out = [];
    for (let v = Math.ceil(from / step) * step; v <= to * 1.0001; v += step) out.push(v);
    return out;
}
