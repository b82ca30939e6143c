/* The icicle of processes and their descendants: one row a generation, as wide as the CPU time of a process with all
 * that it started. Boxes are nodes of the document: each has a name and can be reached by Tab.
 *
 *   icicle(parent, {onSelect: (row)}) → {draw(rows), select(key | null)}
 *       rows: of `top` by tree, by rowsOf: each has the sum of a process and its descendants
 *   family(rows, metric) → [{row, own, sum, children}] the roots; own: without descendants */
import { ofName } from './colour.js';
import { el, put } from './el.js';
import { value } from './format.js';
import { keyOf, titleOf } from './rows.js';

const MIN_SHARE = 0.002;
const ROWS_MAX = 12;

export function family(rows, metric) {
    const nodes = new Map(
        rows.map((row) => [keyOf(row), { row, sum: row.v[metric] ?? 0, own: row.v[metric] ?? 0, children: [] }]),
    );
    const byPid = new Map();
    for (const node of nodes.values()) {
        const place = `${node.row.host?.id} ${node.row.pid}`;
        if (!byPid.has(place)) byPid.set(place, []);
        byPid.get(place).push(node);
    }
    const born = (node) => Number(node.row.info?.start_ns ?? 0);
    /* Of two that began together the first of the answer is the older, so that parents are never in a circle. */
    const older = (x, node) => born(x) < born(node) || (born(x) === born(node) && x.row.i < node.row.i);
    const roots = [];
    for (const node of nodes.values()) {
        const { host, info } = node.row;
        /* Of the processes that had the parent's number, the youngest that is older. */
        const up = (byPid.get(`${host?.id} ${info?.parent}`) || [])
            .filter((x) => older(x, node))
            .sort((a, b) => born(b) - born(a))[0];
        (up ? up.children : roots).push(node);
        if (up) up.own -= node.sum;
    }
    return roots;
}

export function icicle(parent, { onSelect, metric = 'cpu_time' }) {
    const box = el('div.icicle', { role: 'group', 'aria-label': 'Processes and what they started, by CPU time' });
    parent.append(box);
    let chosen = null;

    function boxes(nodes, from, width, depth, total) {
        if (depth >= ROWS_MAX) return;
        let at = from;
        for (const node of [...nodes].sort((a, b) => b.sum - a.sum)) {
            const share = (node.sum / total) * width;
            if (share < MIN_SHARE) continue;
            const colour = ofName(node.row.name);
            const text = `${titleOf(node.row)} ${value(metric, node.sum)}`;
            const b = el(
                'button',
                {
                    type: 'button',
                    title: `${text} with descendants, ${value(metric, Math.max(0, node.own))} itself`,
                    'aria-pressed': keyOf(node.row) === chosen,
                    onclick: () => onSelect(node.row),
                },
                text,
            );
            Object.assign(b.style, {
                left: at * 100 + '%',
                width: share * 100 + '%',
                top: depth * 1.6 + 'rem',
                background: colour.fill,
                color: colour.text,
            });
            box.append(b);
            boxes(
                node.children,
                at,
                share,
                depth + 1,
                Math.max(
                    node.sum,
                    node.children.reduce((sum, c) => sum + c.sum, 0),
                ),
            );
            at += share;
        }
    }

    const deep = (nodes, n) =>
        n >= ROWS_MAX ? n : nodes.reduce((most, node) => Math.max(most, deep(node.children, n + 1)), n);
    let last = [];
    const self = {
        draw(rows) {
            last = rows;
            const roots = family(rows, metric);
            const total = roots.reduce((sum, node) => sum + node.sum, 0);
            put(box);
            box.style.height = deep(roots, 0) * 1.6 + 'rem';
            if (total > 0) boxes(roots, 0, 1, 0, total);
        },
        select(key) {
            chosen = key;
            self.draw(last);
        },
    };
    return self;
}
