/* Single keys, as `procfleet top --watch` has them where it does. They act only when no field has the focus and no
 * Ctrl, Alt or Meta is held, and can be switched off (WCAG 2.1.4); Escape and F1 always act.
 *
 *   const stop = keys({'c': ['order by CPU', fn], 'ArrowLeft': ['earlier', fn, 'move']})      names of
 *       KeyboardEvent.key
 *       the third word is the group in the help; fn(event) may return false: not mine, older entries are asked
 *   help() → [[group, [[key, text], …]], …]        enabled() / enable(bool) */
import { setting } from './store.js';

const layers = [];
const ALWAYS = new Set(['Escape', 'F1']);

export const enabled = () => setting('keys') !== 'off';
export const enable = (yes) => setting('keys', yes ? null : 'off');

export function keys(table) {
    layers.push(table);
    return () => {
        const i = layers.indexOf(table);
        if (i >= 0) layers.splice(i, 1);
    };
}

const NAMES = { ' ': 'space', ArrowLeft: '←', ArrowRight: '→', ArrowUp: '↑', ArrowDown: '↓', Escape: 'Esc' };

export function help() {
    const groups = new Map();
    const seen = new Set();
    for (const table of [...layers].reverse()) {
        for (const [key, [text, , group = 'page']] of Object.entries(table)) {
            if (seen.has(key) || !text) continue;
            seen.add(key);
            if (!groups.has(group)) groups.set(group, []);
            groups.get(group).push([NAMES[key] || key, text]);
        }
    }
    return [...groups];
}

const typing = (node) => node.closest?.('input:not([type=checkbox]), textarea, select, [contenteditable]');

function pressed(event) {
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey) return;
    if (!ALWAYS.has(event.key) && (!enabled() || typing(event.target))) return;
    if (event.key === ' ' && event.target.closest?.('button, a, summary')) return;
    if (event.key === 'Enter' && event.target.closest?.('button, a, summary, input')) return;
    if (document.querySelector('dialog[open]') && event.key !== 'Escape') return;
    for (const table of [...layers].reverse()) {
        const entry = table[event.key];
        if (entry && entry[1](event) !== false) {
            event.preventDefault();
            return;
        }
    }
}

if (typeof document === 'object') document.addEventListener('keydown', pressed);
