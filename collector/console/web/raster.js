/* Plots as pixels. Thousands of buckets as rectangles or paths take a canvas tens of milliseconds a frame; written
 * into one picture they take about one.
 *
 *   const r = raster(width, height, ratio)      in CSS pixels
 *   r.clear()   r.box(x0, x1, y0, y1, pixel)    whole pixels of the screen, the ends are not in it; what lies outside
 *                                               is cut off
 *   r.put(ctx, x, y)                            in the place of whatever is there; x, y in CSS pixels
 *   r.over(ctx, x, y)                           over it
 *   pixel('#4477aa', 0.3) → a pixel of that colour and opacity
 *   thin(pixel, 0.3) → its colour with that opacity */
export function pixel(hex, alpha = 1) {
    const n = parseInt(hex.slice(1), 16);
    const a = Math.round(255 * alpha);
    return ((a << 24) | ((n & 0xff) << 16) | (n & 0xff00) | (n >>> 16)) >>> 0;
}

export const thin = (c, alpha) => ((c & 0xffffff) | (Math.round(255 * alpha) << 24)) >>> 0;

export function raster(width, height, ratio) {
    const [w, h] = [width, height].map((v) => Math.max(1, Math.round(v * ratio)));
    const image = new ImageData(w, h);
    const words = new Uint32Array(image.data.buffer);
    let layer = null;
    return {
        w,
        h,
        clear: () => words.fill(0),
        box(x0, x1, y0, y1, c) {
            const [from, to] = [Math.max(0, x0), Math.min(w, x1)];
            const until = Math.min(h, y1) * w;
            if (to - from === 1) {
                for (let at = Math.max(0, y0) * w + from; at < until; at += w) words[at] = c;
            } else if (to > from) {
                for (let at = Math.max(0, y0) * w; at < until; at += w) words.fill(c, at + from, at + to);
            }
        },
        put: (ctx, x, y) => ctx.putImageData(image, Math.round(x * ratio), Math.round(y * ratio)),
        over(ctx, x, y) {
            layer ??= Object.assign(document.createElement('canvas'), { width: w, height: h });
            layer.getContext('2d').putImageData(image, 0, 0);
            ctx.drawImage(layer, Math.round(x * ratio) / ratio, Math.round(y * ratio) / ratio, w / ratio, h / ratio);
        },
    };
}
