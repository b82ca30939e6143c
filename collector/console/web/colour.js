/* Colours. A name has one colour in every view and every link: twelve hues that colour-blind eyes tell apart too, in
 * three shades, by hash of the name. Nothing is told by colour alone: states have a sign as well.
 *
 *   ofName('postgres') → {fill, line, text}   CSS colours for the scheme that is shown now; text: readable on fill
 *   REST                                      as above, for what is left over
 *   theme() → {ink, dim, faint, ground, grid, hatch, bad, select, heat: [..9], dark}   of style.css
 *   onScheme(fn) → stop                       fn() when light becomes dark or back
 *   hash(text) → 32 bits (FNV-1a) */

const HUES = [
    '#4477aa',
    '#88ccee',
    '#44aa99',
    '#117733',
    '#999933',
    '#ddcc77',
    '#cc6677',
    '#882255',
    '#aa4499',
    '#5b50a8',
    '#7d6e63',
    '#6f8f2f',
];

export function hash(text) {
    let h = 0x811c9dc5;
    for (let i = 0; i < text.length; i++) {
        h ^= text.charCodeAt(i);
        h = Math.imul(h, 0x01000193);
    }
    h ^= h >>> 15;
    return Math.imul(h, 0x2c1b3c6d) >>> 0;
}

const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const hex = (rgb) =>
    '#' +
    rgb
        .map((c) =>
            Math.round(Math.min(255, Math.max(0, c)))
                .toString(16)
                .padStart(2, '0'),
        )
        .join('');
export const mix = (a, b, share) => hex(channels(a).map((c, i) => c + (channels(b)[i] - c) * share));

export function luminance(colour) {
    const [r, g, b] = channels(colour).map((c) =>
        c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4,
    );
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(a, b) {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
}

const media = (query) => (typeof matchMedia === 'function' ? matchMedia(query) : { matches: false });
const scheme = media('(prefers-color-scheme: dark)');
const forced = media('(forced-colors: active)');
const NAMES = ['ink', 'dim', 'faint', 'ground', 'grid', 'hatch', 'bad', 'select', 'heat0', 'heat1'];
const KNOWN_MAX = 10000; /* live views meet ever new names */
const known = new Map();
let shown = null;

const make = (base, dark) => ({
    fill: base,
    line: dark ? mix(base, '#ffffff', 0.25) : mix(base, '#000000', 0.2),
    text: contrast(base, '#ffffff') >= contrast(base, '#000000') ? '#ffffff' : '#000000',
});

export function ofName(name) {
    const key = String(name);
    let colour = known.get(key);
    if (!colour) {
        const h = hash(key);
        const base = HUES[h % HUES.length];
        const shade = Math.floor(h / HUES.length) % 3;
        const dark = scheme.matches;
        colour = make(
            shade === 0 ? base : mix(base, shade === 1 ? '#ffffff' : '#000000', shade === 1 ? 0.28 : 0.2),
            dark,
        );
        if (known.size >= KNOWN_MAX) known.clear();
        known.set(key, colour);
    }
    return colour;
}

export const REST = { fill: '#9aa0a6', line: '#80868b', text: '#111111' };

/* What a CSS colour is on this screen, also where the system's colours are forced. */
function resolve(probe, name) {
    probe.style.color = `var(--${name})`;
    return hex(
        getComputedStyle(probe)
            .color.match(/[\d.]+/g)
            .slice(0, 3)
            .map(Number),
    );
}

export function theme() {
    if (!shown) {
        const probe = document.body.appendChild(document.createElement('i'));
        shown = { dark: scheme.matches };
        for (const name of NAMES) shown[name] = resolve(probe, name);
        probe.remove();
        /* The system's colours have no faint ones. */
        if (forced.matches) shown.grid = mix(shown.ground, shown.grid, 0.3);
        shown.heat = Array.from({ length: 9 }, (_, i) => mix(shown.heat0, shown.heat1, i / 8));
    }
    return shown;
}

export function onScheme(fn) {
    const changed = () => {
        shown = null;
        known.clear();
        fn();
    };
    for (const query of [scheme, forced]) query.addEventListener('change', changed);
    return () => {
        for (const query of [scheme, forced]) query.removeEventListener('change', changed);
    };
}
