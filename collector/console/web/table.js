/* A table of any length: only rows in sight are in the document. One stop of Tab; arrows, PgUp, PgDn, Home and End
 * move the selection, Enter opens, a click selects, a double click opens.
 *
 *   const t = table(parent, {label: 'processes', columns, key: (row) => 'text', onSelect: (row, key), onOpen: (row),
 *                            sort: '-cpu', onSort: (sort), height: '20rem', mark: (row, tr), onSight: ()})
 *   column: {key, title, cell: (row) → text | node, sort: (row) → number | string | null, right: true, width: '9ch',
 *            hint, wide: true (takes what is left), exact: true (a title that keeps its letters)}         without
 *                `sort` it cannot be sorted by
 *   t.rows(rows)    t.select(key, {reveal: true})    t.columns(columns)    t.selected() → key | null    t.shown() →
 *       rows, sorted
 *   t.sight() → the rows that are in the document; onSight when they were made anew
 *   t.redraw()      cells anew (values changed in place)                    t.csv() → the text of a CSV file with all
 *       rows
 * `sort` is a column's key, '-' before it: largest first. Rows without a value are last either way; equal ones keep
 * their order. */
import { el, put } from './el.js';

/* A field of a CSV file. Spreadsheets take what begins so for a formula: names come from hosts. */
export function field(text) {
    const formula = /^[=+@\t-]/.test(text) && !/^[+-][\d.]+( [%\w/]+)?$/.test(text);
    const s = formula ? "'" + text : text;
    return /[",\n\r]/.test(s) ? '"' + s.replace(/"/g, '""') + '"' : s;
}

const SPARE = 8;
let number = 0;

export function table(parent, options) {
    const id = 'table' + ++number;
    const { label, key, onSelect, onOpen, onSort, mark, onSight } = options;
    let columns = options.columns;
    let all = [];
    let sorted = [];
    let sort = options.sort || '';
    let selected = null;
    let live = new Map();
    let drawn = [0, 0];
    let rowHeight = 0;
    let queued = false;
    let view = { top: 0, height: 0, head: 0 }; /* as it was looked at last: nothing is looked up while rows are made */

    const group = el('colgroup');
    const heads = el('tr', { 'aria-rowindex': 1 });
    const above = el('tr.gap', { 'aria-hidden': true }, el('td'));
    const below = el('tr.gap', { 'aria-hidden': true }, el('td'));
    const body = el('tbody', null, above, below);
    const grid = el(
        'table',
        { role: 'grid', 'aria-label': label, tabIndex: 0, id },
        group,
        el('thead', null, heads),
        body,
    );
    const node = el('div.table', null, grid);
    if (options.height) node.style.maxHeight = options.height;
    parent.append(node);

    const columnOf = () => columns.find((c) => c.key === sort.replace(/^-/, ''));

    function compare(a, b) {
        if (a === b) return 0;
        if (a === null || a === undefined || Number.isNaN(a)) return 2;
        if (b === null || b === undefined || Number.isNaN(b)) return -2;
        return a < b ? -1 : 1;
    }

    function order() {
        const column = columnOf();
        sorted = all;
        if (column?.sort) {
            const sign = sort[0] === '-' ? -1 : 1;
            const values = all.map((row, i) => [column.sort(row), i]);
            values.sort((a, b) => {
                const c = compare(a[0], b[0]);
                return (Math.abs(c) === 2 ? c : c * sign) || a[1] - b[1];
            });
            sorted = values.map(([, i]) => all[i]);
        }
    }

    function headers() {
        put(
            group,
            columns.map((c) => {
                const col = el('col');
                col.style.width = c.width || '';
                return col;
            }),
        );
        /* Where it does not fit it is scrolled: no column is squeezed away. */
        grid.style.minWidth = `calc(${columns.map((c) => c.width || (c.wide ? '14ch' : '11ch')).join(' + ')})`;
        put(
            heads,
            columns.map((c) => {
                const down = sort === '-' + c.key;
                const active = down || sort === c.key;
                const th = el(
                    'th',
                    {
                        scope: 'col',
                        'aria-sort': active ? (down ? 'descending' : 'ascending') : null,
                        title: c.hint || null,
                    },
                    c.sort
                        ? el(
                              'button',
                              { type: 'button', onclick: () => byColumn(c) },
                              c.title,
                              active ? (down ? ' ▾' : ' ▴') : '',
                          )
                        : c.title,
                );
                if (c.right) th.classList.add('r');
                if (c.exact) th.classList.add('exact');
                return th;
            }),
        );
        for (const gap of [above, below]) gap.firstChild.colSpan = columns.length;
    }

    function byColumn(c) {
        const numeric = c.right || c.down;
        sort = sort === '-' + c.key ? c.key : sort === c.key ? '-' + c.key : (numeric ? '-' : '') + c.key;
        onSort?.(sort);
        self.rows(all);
    }

    function make(row, i, k) {
        const tr = el('tr', { role: 'row', id: `${id}-${i}`, 'aria-rowindex': i + 2, 'aria-selected': k === selected });
        for (const c of columns) {
            const content = c.cell(row);
            const td = el(
                'td',
                { role: 'gridcell', title: typeof content === 'string' && (c.wide || c.cut) ? content : null },
                content,
            );
            if (c.right) td.className = 'r';
            tr.append(td);
        }
        tr.addEventListener('click', () => choose(i));
        tr.addEventListener('dblclick', () => onOpen?.(row));
        mark?.(row, tr);
        return tr;
    }

    function draw() {
        queued = false;
        const h = rowHeight || 22;
        const longest = Math.max(0, sorted.length * h + view.head - view.height);
        const scrolled = Math.min(view.top, longest); /* shorter than before: the browser will scroll back */
        const top = Math.max(0, scrolled - view.head);
        const first = Math.max(0, Math.min(Math.floor(top / h) - SPARE, sorted.length - 1));
        const end = Math.min(sorted.length, Math.ceil((scrolled + (view.height || 600)) / h) + SPARE);
        const next = new Map();
        for (let i = first; i < end; i++) {
            const k = key(sorted[i]);
            let tr = live.get(k);
            if (!tr || tr.id !== `${id}-${i}`) tr = make(sorted[i], i, k);
            next.set(k, tr);
        }
        for (const [k, tr] of live) if (next.get(k) !== tr) tr.remove();
        let at = above;
        for (const tr of next.values()) {
            if (at.nextSibling !== tr) at.after(tr);
            at = tr;
        }
        live = next;
        drawn = [first, end];
        above.firstChild.style.height = first * h + 'px';
        below.firstChild.style.height = Math.max(0, sorted.length - end) * h + 'px';
        above.hidden = first === 0;
        below.hidden = end >= sorted.length;
        if (!rowHeight && next.size) {
            rowHeight = next.values().next().value.getBoundingClientRect().height;
            if (rowHeight && Math.abs(rowHeight - h) > 0.5) return draw();
        }
        onSight?.();
    }

    function look() {
        view = { top: node.scrollTop, height: node.clientHeight, head: heads.offsetHeight };
    }

    const queue = () => {
        look();
        if (!queued) {
            queued = true;
            requestAnimationFrame(draw);
        }
    };

    const indexOf = (k) => sorted.findIndex((row) => key(row) === k);

    function highlight() {
        for (const [k, tr] of live) tr.setAttribute('aria-selected', String(k === selected));
        const tr = live.get(selected);
        if (tr) grid.setAttribute('aria-activedescendant', tr.id);
        else grid.removeAttribute('aria-activedescendant');
    }

    function reveal(i) {
        const h = rowHeight || 22;
        look();
        if (i * h < view.top) node.scrollTop = i * h;
        else if ((i + 1) * h + view.head > view.top + view.height)
            node.scrollTop = (i + 1) * h + view.head - view.height;
        look();
        draw();
    }

    function choose(i) {
        const row = sorted[Math.max(0, Math.min(i, sorted.length - 1))];
        if (!row) return;
        selected = key(row);
        reveal(sorted.indexOf(row));
        highlight();
        onSelect?.(row, selected);
    }

    const moves = {
        ArrowDown: (i) => i + 1,
        ArrowUp: (i) => (i < 0 ? sorted.length - 1 : i - 1),
        Home: () => 0,
        End: () => sorted.length - 1,
        PageDown: (i, page) => i + page,
        PageUp: (i, page) => i - page,
    };

    grid.addEventListener('keydown', (event) => {
        if (event.target !== grid || event.ctrlKey || event.altKey || event.metaKey) return;
        const i = indexOf(selected);
        const move = moves[event.key];
        if (move) choose(move(i, Math.max(1, Math.floor(node.clientHeight / (rowHeight || 22)) - 2)));
        else if (event.key === 'Enter' && i >= 0 && onOpen) onOpen(sorted[i]);
        else return;
        event.preventDefault();
        event.stopPropagation();
    });
    node.addEventListener('scroll', queue, { passive: true });
    const sizes = new ResizeObserver(() => {
        rowHeight = 0;
        queue();
    });
    sizes.observe(node);

    const cellOf = (c, row) => plain((c.plain || c.cell)(row));
    const plain = (content) =>
        content instanceof Node ? (content.getAttribute?.('aria-label') ?? content.textContent) : String(content ?? '');

    const self = {
        node,
        grid,
        rows(rows) {
            all = rows;
            order();
            grid.setAttribute('aria-rowcount', sorted.length + 1);
            headers();
            self.redraw();
        },
        redraw() {
            for (const tr of live.values()) tr.remove();
            live = new Map();
            draw();
            highlight();
        },
        select(k, how = {}) {
            selected = k;
            const i = k === null ? -1 : indexOf(k);
            if (i >= 0 && how.reveal) reveal(i);
            highlight();
        },
        sort(value) {
            sort = value;
            self.rows(all);
        },
        columns(value) {
            columns = value;
            headers();
        },
        selected: () => selected,
        shown: () => sorted,
        sight: () => sorted.slice(...drawn),
        choose,
        csv: () =>
            [columns.map((c) => c.key), ...sorted.map((row) => columns.map((c) => cellOf(c, row)))]
                .map((cells) => cells.map(field).join(',') + '\r\n')
                .join(''),
        close: () => sizes.disconnect(),
    };
    headers();
    return self;
}

/* Hands a text to the browser as a file. */
export function save(name, type, content) {
    const url = URL.createObjectURL(new Blob([content], { type }));
    const a = el('a', { href: url, download: name });
    a.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
}
