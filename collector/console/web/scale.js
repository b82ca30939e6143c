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
