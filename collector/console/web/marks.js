/* Marks: views to come back to or to compare. A mark is a host glob, a name glob, a range and a label; it is kept in
 * the browser and, as a text, in links.
 *
 *   marks() → ['web-*|postgres|20261123T140000Z..20261123T141500Z|before', …]   newest first
 *   mark(state, now) → text          of what is shown, its range made absolute; kept
 *   remove(text)
 *   read(text) → {host, name, from, to, label} | null */
import { formatTime, parseTime, range, setting } from './store.js';
import { clock } from './time.js';

const MAX = 20;
const PARTS = 4;

const plain = (s) => s.replace(/[|\n]/g, ' ').slice(0, 200);

export function marks() {
    try {
        const list = JSON.parse(setting('marks') ?? '[]');
        return Array.isArray(list) ? list.filter((m) => read(m)).slice(0, MAX) : [];
    } catch {
        return [];
    }
}

export function read(text) {
    const parts = typeof text === 'string' ? text.split('|') : [];
    const t = parts.length === PARTS ? parseTime(parts[2]) : null;
    return t?.from ? { host: parts[0], name: parts[1], from: t.from, to: t.to, label: parts[3] } : null;
}

export function textOf(state, now) {
    const r = range(state, now);
    const host = state.view === 'h' || state.view === 'p' ? (state.args[0] ?? '') : state.host;
    const label = `${host || 'all hosts'}${state.name ? ' ' + state.name : ''} ${clock(r.from, 1000)}`;
    return [plain(host), plain(state.name), formatTime(r.from, r.to), plain(label)].join('|');
}

export function mark(state, now) {
    const text = textOf(state, now);
    setting('marks', JSON.stringify([text, ...marks().filter((m) => m !== text)].slice(0, MAX)));
    return text;
}

export function remove(text) {
    setting('marks', JSON.stringify(marks().filter((m) => m !== text)));
}
