// The explorer: F(x, t) of one or two variables for any t, and the paths of the methods through it.
"use strict";

(() => {
  const REPLAY_MS = 6000; // a whole path, however long
  const STEPS = 20; // presses of the button for a whole path where motion is unwelcome
  const FINE = 4; // positions of the slider of t between two frames
  const BEND = 0.03; // this share of the picture lies where colors are still linear
  const CUT = 0.85; // the surface shows at least this share of the picture
  const HEIGHT = 0.5; // of the surface, its sides being 1
  const ELEVATION = 0.9; // of the eye above the surface, in radians
  const DISTANCE = { wide: 1.85, narrow: 2.3 }; // of the eye from the middle
  const LEVELS = 24;
  const NARROW = 420; // pixels
  const FAINT = 0.55; // what is not chosen

  const CALM = matchMedia("(prefers-reduced-motion: reduce)");
  const DARK = matchMedia("(prefers-color-scheme: dark)");

  // Paths differ in color, dash and symbol: for plots by name, for the buttons as SVG.
  const LOOKS = [
    { symbol: "circle", dash: "solid", dashes: "", shape: "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z" },
    { symbol: "square", dash: "dash", dashes: "6 3", shape: "M-4-4h8v8h-8z" },
    { symbol: "diamond", dash: "dashdot", dashes: "6 3 2 3", shape: "M0-5.5L5.5 0L0 5.5L-5.5 0z" },
    { symbol: "triangle-up", dash: "dot", dashes: "2 3", shape: "M0-5.5L5 4.5h-10z" },
    { symbol: "cross", dash: "longdash", dashes: "10 3", shape: "M-2-5h4v3h3v4h-3v3h-4v-3h-3v-4h3z" },
    { symbol: "x", dash: "longdashdot", dashes: "10 3 2 3", shape: "M0-2.8L2.8-5.5L5.5-2.8L2.8 0L5.5 2.8L2.8 5.5L0 2.8L-2.8 5.5L-5.5 2.8L-2.8 0L-5.5-2.8L-2.8-5.5z" },
    { symbol: "pentagon", dash: "solid", dashes: "", shape: "M0-5.5L5.2-1.7L3.2 4.4h-6.4L-5.2-1.7z" },
  ];

  // Numbers and arrays

  const show = (value) => (Number.isFinite(value) ? String(+value.toPrecision(4)) : "not finite");
  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
  const nextFrame = () => new Promise(requestAnimationFrame);

  function decode(text, Type) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Type(bytes.buffer);
  }

  /** What the page holds of a problem, as arrays. */
  function read(text) {
    const data = JSON.parse(text);
    const axes = data.axes.map((axis) => decode(axis, Float64Array));
    const paths = data.paths.map((path, i) => ({
      label: path.label,
      color: path.color,
      look: LOOKS[i % LOOKS.length],
      iteration: decode(path.iteration, Float64Array),
      x: decode(path.x, Float64Array),
      t: decode(path.t, Float64Array),
      fun: decode(path.fun, Float64Array),
      phase: decode(path.phase, Float64Array),
    }));
    return {
      axes,
      paths,
      size: axes.reduce((product, axis) => product * axis.length, 1),
      t: decode(data.t, Float64Array),
      minimizers: decode(data.minimizers, Float64Array),
      low: decode(data.low, Float64Array),
      above: decode(data.above, Float32Array),
    };
  }

  // Between two frames F is taken as linear in t^2, which it is for small t by the heat equation.

  /** The t at a position among the frames, 0 for the first. */
  function radiusAt(problem, position) {
    const i = clamp(Math.floor(position), 0, problem.t.length - 2);
    const share = position - i;
    return Math.sqrt((1 - share) * problem.t[i] ** 2 + share * problem.t[i + 1] ** 2);
  }

  /** The position among the frames of a t. */
  function positionOf(problem, t) {
    const radii = problem.t;
    if (!(t < radii[0])) return 0;
    let i = 0;
    while (i < radii.length - 2 && radii[i + 1] > t) i += 1;
    return i + (radii[i] ** 2 - t ** 2) / (radii[i] ** 2 - radii[i + 1] ** 2);
  }

  /** F on the grid at a position among the frames. */
  function valuesAt(problem, position) {
    const { size, low, above } = problem;
    const i = clamp(Math.floor(position), 0, problem.t.length - 2);
    const share = position - i;
    const values = new Float64Array(size);
    for (let j = 0; j < size; j += 1) {
      const before = share < 1 ? (1 - share) * (low[i] + above[i * size + j]) : 0;
      const after = share > 0 ? share * (low[i + 1] + above[(i + 1) * size + j]) : 0;
      values[j] = before + after;
    }
    return values;
  }

  /** F at a point, linearly between grid points; NaN outside. */
  function interpolate(axes, values, point) {
    let corners = [[0, 1]];
    let stride = 1;
    axes.forEach((axis, j) => {
      const place = ((point[j] - axis[0]) / (axis[axis.length - 1] - axis[0])) * (axis.length - 1);
      const inside = place >= 0 && place <= axis.length - 1;
      const i = inside ? Math.min(Math.floor(place), axis.length - 2) : 0;
      const share = inside ? place - i : NaN;
      const step = stride;
      corners = corners.flatMap(([at, weight]) => [
        [at + i * step, weight * (1 - share)],
        [at + (i + 1) * step, weight * share],
      ]);
      stride *= axis.length;
    });
    return corners.reduce((sum, [at, weight]) => sum + (weight === 0 ? 0 : weight * values[at]), 0);
  }

  /** True if another phase of "auto" begins with this record: the line to it is left out. */
  function breaksAt(path, i) {
    return i > 0 && path.phase[i] !== path.phase[i - 1];
  }

  /** One coordinate of a path in the plane, with a gap where another phase begins. */
  function coordinateOf(path, j, from, to) {
    const values = [];
    for (let i = from; i <= to; i += 1) {
      if (i > from && breaksAt(path, i)) values.push(null);
      values.push(path.x[2 * i + j]);
    }
    return values;
  }

  /** Points of a path up to iteration k, with others between them so that none is further than `step` from the next. */
  function wayOf(path, d, k, step) {
    const points = [];
    for (let i = 0; i <= k; i += 1) {
      const to = path.x.subarray(i * d, (i + 1) * d);
      const breaks = breaksAt(path, i);
      if (breaks) points.push(Array(d).fill(NaN));
      const from = i > 0 && !breaks ? path.x.subarray((i - 1) * d, i * d) : to;
      const distance = Math.hypot(...to.map((value, j) => value - from[j]));
      const pieces = clamp(Math.ceil(distance / step) || 1, 1, 200);
      for (let n = 1; n <= pieces; n += 1) points.push(Array.from(to, (value, j) => from[j] + (n / pieces) * (value - from[j])));
    }
    return points;
  }

  /** The last of a path's recorded iterations up to this one. */
  function recordOf(path, iteration) {
    let k = path.iteration.length - 1;
    while (k > 0 && path.iteration[k] > iteration) k -= 1;
    return k;
  }

  /** Every d-th number of points (n, d): one coordinate of all of them. */
  function columnOf(points, d, j) {
    return points.filter((_, i) => i % d === j);
  }

  /** Colors: logarithmic above the least value, linear close to it. Maps F to [0, 1] and back. */
  function scaleOf(values) {
    const sorted = values.filter(Number.isFinite).sort();
    const at = (share) => (sorted.length ? sorted[Math.floor(share * (sorted.length - 1))] : 0);
    const [low, high] = [at(0), at(1)];
    const bend = at(BEND) - low || (high - low) / 50 || 1;
    const top = Math.log1p((high - low) / bend) || 1;
    return {
      low,
      empty: sorted.length === 0,
      cut: at(CUT),
      color: (value) => Math.log1p((value - low) / bend) / top,
      value: (color) => low + bend * Math.expm1(color * top),
    };
  }

  /** The best viewing angle: from the side where f is low, a little aslant. */
  function lowSideOf({ axes, t, size, above }) {
    const f = above.subarray((t.length - 1) * size);
    const { color } = scaleOf(f);
    const [nx, ny] = axes.map((axis) => axis.length);
    const pull = [0, 0];
    f.forEach((value, j) => {
      if (!Number.isFinite(value)) return;
      pull[0] -= color(value) * ((j % nx) / (nx - 1) - 0.5);
      pull[1] -= color(value) * (Math.floor(j / nx) / (ny - 1) - 0.5);
    });
    return Math.atan2(pull[1], pull[0]) - Math.PI / 8;
  }

  /** A flat array as rows. */
  function rowsOf(values, width) {
    return Array.from({ length: values.length / width }, (_, i) => values.subarray(i * width, (i + 1) * width));
  }

  // Plots

  const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false };

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(`--${name}`).trim();
    return { paper: color("paper"), ink: color("ink"), soft: color("soft"), line: color("line") };
  }

  function layoutOf(colors) {
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colors.ink, size: 12, family: getComputedStyle(document.body).fontFamily },
      margin: { l: 44, r: 12, t: 12, b: 40 },
      showlegend: false,
      hovermode: "closest",
      dragmode: false,
      uirevision: "kept",
    };
  }

  function axisOf(colors, title, range) {
    return {
      title: { text: title, standoff: 6 },
      range,
      gridcolor: colors.line,
      linecolor: colors.soft,
      zeroline: false,
      ticks: "outside",
      tickcolor: colors.soft,
      fixedrange: true,
    };
  }

  const endsOf = (axis) => [axis[0], axis[axis.length - 1]];

  /** Contours of F and the paths over them. */
  function mapOf(view, colors, narrow) {
    const { problem, values, scale, path, k } = view;
    const [x, y] = problem.axes;
    const traces = [
      {
        type: "contour",
        x,
        y,
        z: rowsOf(values.map(scale.color), x.length),
        customdata: rowsOf(values, x.length),
        zmin: 0,
        zmax: 1,
        autocontour: false,
        contours: { start: 0, end: 1, size: 1 / LEVELS, coloring: "fill" },
        line: { width: 0.5, color: "rgba(255,255,255,0.35)" },
        colorscale: "Viridis",
        colorbar: barOf(scale, narrow),
        hovertemplate: "x = %{x:.4g}<br>y = %{y:.4g}<br>F = %{customdata:.4g}<extra></extra>",
      },
    ];
    problem.paths.filter((other) => other !== path).forEach((other) => {
      traces.push(...routeOf(other, 0, other.t.length - 1, { width: 2, dash: other.look.dash, opacity: FAINT, name: "other" }));
      traces.push(symbolOf(other, other.t.length - 1, { size: 8, opacity: FAINT, name: "" }));
    });
    if (path) {
      traces.push(...routeOf(path, k, path.t.length - 1, { width: 1.5, name: "rest" }));
      traces.push(...routeOf(path, 0, k, { width: 5, name: "chosen" }));
    }
    const [stars, heights] = [0, 1].map((j) => columnOf(problem.minimizers, 2, j));
    traces.push(starsOf(stars, heights, "x = %{x:.4g}<br>y = %{y:.4g}"));
    if (path) traces.push(symbolOf(path, k, { size: 15, opacity: 1, name: "now" }));
    const layout = { ...layoutOf(colors), xaxis: axisOf(colors, "x", endsOf(x)), yaxis: axisOf(colors, "y", endsOf(y)) };
    // The bar has its place, however long its numbers are: the map must not jump while t is dragged.
    layout.margin = { l: 44, r: narrow ? 16 : 80, t: 14, b: narrow ? 84 : 44, autoexpand: false };
    return [traces, layout];
  }

  /** Color bar with the values of F, beside the map, or below it on a narrow page. */
  function barOf(scale, narrow) {
    const ticks = [0, 0.25, 0.5, 0.75, 1];
    const bar = {
      thickness: 10,
      outlinewidth: 0,
      tickvals: ticks,
      ticktext: ticks.map((tick) => String(+scale.value(tick).toPrecision(3))),
    };
    const place = narrow ? { orientation: "h", yref: "container", y: 0, yanchor: "bottom", ypad: 4 } : { xpad: 8, len: 1.05 };
    return { ...bar, ...place };
  }

  /** A path in the plane from one record to another, on white so that it shows on all colors. */
  function routeOf(path, from, to, { width, name, dash = "solid", opacity = 1 }) {
    const line = {
      type: "scatter",
      mode: "lines",
      name,
      x: coordinateOf(path, 0, from, to),
      y: coordinateOf(path, 1, from, to),
      opacity,
      line: { color: path.color, width, dash },
      hoverinfo: "skip",
    };
    return [{ ...line, name: "", line: { color: "#ffffff", width: width + 2 } }, line];
  }

  function symbolOf(path, k, { size, opacity, name }) {
    const marker = { color: path.color, size, symbol: path.look.symbol, line: { color: "#ffffff", width: size > 10 ? 2 : 1 } };
    return { type: "scatter", mode: "markers", name, x: [path.x[2 * k]], y: [path.x[2 * k + 1]], opacity, marker, hoverinfo: "skip" };
  }

  /** The known global minima. */
  function starsOf(x, y, place) {
    return {
      type: "scatter",
      mode: "markers",
      name: "minima",
      x,
      y,
      marker: { symbol: "star", size: 17, color: "#ffffff", line: { color: "#1c2430", width: 1.5 } },
      hovertemplate: `global minimum<br>${place}<extra></extra>`,
    };
  }

  /** f and t of all paths over the iterations, the chosen one and the one beside it bold up to the current iteration. */
  function curvesOf({ problem, path, k }, beside, colors) {
    const shown = [path, beside].filter(Boolean);
    const iteration = path.iteration[k];
    const span = Math.max(...shown.map((one) => one.iteration[one.iteration.length - 1]));
    const ordered = [...problem.paths.filter((one) => !shown.includes(one)), ...shown.reverse()];
    const line = (one, y, axis, to, look) => ({
      type: "scatter",
      mode: "lines",
      x: one.iteration.subarray(0, to),
      y: y.subarray(0, to),
      yaxis: axis,
      line: { color: one.color, width: look.width },
      opacity: look.opacity,
      name: look.name,
      hovertemplate: `${escapeOf(one.label)}<br>iteration %{x}<br>%{y:.4g}<extra></extra>`,
    });
    const traces = ordered.flatMap((one) =>
      [[one.fun, "y"], [one.t, "y2"]].flatMap(([y, axis]) => {
        const whole = line(one, y, axis, y.length, { width: 1.5, opacity: shown.includes(one) ? 0.5 : 0.25, name: "whole" });
        if (!shown.includes(one)) return [whole];
        const name = one === path ? `chosen ${axis}` : `beside ${axis}`;
        return [whole, line(one, y, axis, recordOf(one, iteration) + 1, { width: 3.5, opacity: 1, name })];
      }),
    );
    const positive = problem.paths.every((one) => one.fun.every((value) => value > 0 || Number.isNaN(value)));
    const layout = {
      ...layoutOf(colors),
      xaxis: { ...axisOf(colors, "iteration", [0, span || 1]), anchor: "y2" },
      yaxis: { ...axisOf(colors, "f"), domain: [0.54, 1], type: positive ? "log" : "linear", exponentformat: "power", nticks: 5 },
      yaxis2: { ...axisOf(colors, "t"), domain: [0, 0.46], rangemode: "tozero", nticks: 4 },
      shapes: [{ type: "line", xref: "x", yref: "paper", x0: iteration, x1: iteration, y0: 0, y1: 1, line: { color: colors.soft, width: 1 } }],
    };
    layout.margin = { l: 60, r: 14, t: 14, b: 44, autoexpand: false };
    return [traces, layout];
  }

  /** Text for the library, which reads some HTML. */
  function escapeOf(text) {
    return text.replace(/[&<>]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[letter]);
  }

  /** F as a surface, with the chosen path on it. */
  function surfaceOf(view, colors, narrow, eye, angle) {
    const { problem, values, scale, path } = view;
    const [x, y] = problem.axes;
    // The library fails on a surface without a single value.
    if (scale.empty) return [[], { ...layoutOf(colors), xaxis: { visible: false }, yaxis: { visible: false } }];
    const top = topOf(view);
    const traces = [
      {
        type: "surface",
        x,
        y,
        z: rowsOf(values, x.length),
        surfacecolor: rowsOf(values.map(scale.color), x.length),
        cmin: 0,
        cmax: 1,
        colorscale: "Viridis",
        showscale: false,
        lighting: { ambient: 0.85, diffuse: 0.4, specular: 0.02, roughness: 0.9 },
        hovertemplate: "x = %{x:.4g}<br>y = %{y:.4g}<br>F = %{z:.4g}<extra></extra>",
      },
    ];
    // The floor lies a little lower than the surface, whose least point its lines would shine through.
    const height = top - scale.low || 1;
    const ranges = [endsOf(x), endsOf(y), [scale.low - 0.04 * height, scale.low + height]];
    if (path) traces.push(...liftedOf(view, ranges, eye));
    const axis = (title, range) => ({
      title: { text: title, font: { size: 14 } },
      range,
      gridcolor: colors.line,
      color: colors.ink,
      showspikes: false,
      nticks: 5,
      zeroline: false,
      tickangle: 0,
      tickfont: { size: narrow ? 11 : 13 },
    });
    const layout = {
      ...layoutOf(colors),
      margin: { l: 0, r: 0, t: 0, b: 0 },
      scene: {
        xaxis: axis("x", ranges[0]),
        yaxis: axis("y", ranges[1]),
        zaxis: axis("F", ranges[2]),
        aspectmode: "manual",
        aspectratio: { x: 1, y: 1, z: HEIGHT },
        camera: { eye, center: { x: 0, y: 0, z: -0.12 } },
        dragmode: "turntable",
        uirevision: String(angle),
      },
    };
    return [traces, layout];
  }

  /** Up to where F is shown: most of it, and the starts of all paths. */
  function topOf({ problem, values, scale }) {
    const d = problem.axes.length;
    const starts = problem.paths.map((path) => interpolate(problem.axes, values, path.x.subarray(0, d)));
    const top = Math.max(scale.cut, ...starts.filter(Number.isFinite));
    return top + 0.05 * (top - scale.low);
  }

  /** Where the eye is, in the data's coordinates. Those of the scene begin in the middle of the box. */
  function eyeAmong(ranges, eye) {
    return [eye.x, eye.y, eye.z / HEIGHT].map((place, j) => (ranges[j][0] + ranges[j][1]) / 2 + place * (ranges[j][1] - ranges[j][0]));
  }

  /** Which share of the way from a point to the eye lies within the box, all but a little. */
  function shareInside(ranges, point, eye) {
    const shares = point.map((from, j) => (ranges[j][eye[j] > from ? 1 : 0] - from) / (eye[j] - from));
    return clamp(0.99 * Math.min(...shares), 0, 0.9);
  }

  /**
   * The chosen path on the surface, and thin once more where nothing hides it. Points that are moved toward the eye are
   * seen at the same place: a little for the path not to sink into the surface, to the end of the box for walls.
   */
  function liftedOf({ problem, values, path, k }, ranges, eye) {
    const [x] = problem.axes;
    const way = wayOf(path, 2, k, x[1] - x[0]).map((point) => [...point, interpolate(problem.axes, values, point)]);
    const to = eyeAmong(ranges, eye);
    const near = (share) => (point) => point.map((from, j) => from + share * (to[j] - from));
    const before = (point) => near(shareInside(ranges, point, to))(point);
    const trace = (name, points, look) => ({
      type: "scatter3d",
      name,
      x: points.map((point) => point[0]),
      y: points.map((point) => point[1]),
      z: points.map((point) => point[2]),
      hoverinfo: "skip",
      ...look,
    });
    const marker = { color: path.color, size: 8, line: { color: "#ffffff", width: 2 } };
    return [
      trace("", way.map(near(0.008)), { mode: "lines", line: { color: "#ffffff", width: 10 } }),
      trace("chosen", way.map(near(0.012)), { mode: "lines", line: { color: path.color, width: 6 } }),
      trace("through", way.map(before), { mode: "lines", line: { color: path.color, width: 2 } }),
      trace("now", way.slice(-1).map(before), { mode: "markers", marker }),
    ];
  }

  /** F over x, f behind it, and the paths as dots on it. */
  function curveOf(view, colors) {
    const { problem, values, path, k } = view;
    const [x] = problem.axes;
    const f = valuesAt(problem, problem.t.length - 1);
    // The library would leave points out of a line that is nearly straight, which shows as corners.
    const curve = { type: "scatter", mode: "lines", x };
    const line = { simplify: false };
    const traces = [
      { ...curve, name: "f", y: f, line: { ...line, color: colors.soft, width: 1.5 }, opacity: 0.6, hovertemplate: "x = %{x:.4g}<br>f = %{y:.4g}<extra></extra>" },
      { ...curve, name: "F", y: values, line: { ...line, color: colors.ink, width: 2.5 }, hovertemplate: "x = %{x:.4g}<br>F = %{y:.4g}<extra></extra>" },
    ];
    problem.paths.forEach((other) => {
      if (other !== path) traces.push(dotsOf(view, other, 0, other.t.length - 1, { size: 5, opacity: FAINT, name: "other" }));
    });
    if (path) {
      traces.push(dotsOf(view, path, k, path.t.length - 1, { size: 4, opacity: 1, name: "rest" }));
      traces.push(dotsOf(view, path, 0, k, { size: 9, opacity: 1, name: "chosen" }));
    }
    const stars = problem.minimizers;
    traces.push(starsOf(stars, stars.map((star) => interpolate(problem.axes, f, [star])), "x = %{x:.4g}<br>f = %{y:.4g}"));
    if (path) traces.push(dotsOf(view, path, k, k, { size: 15, opacity: 1, name: "now" }));
    const layout = { ...layoutOf(colors), xaxis: axisOf(colors, "x", endsOf(x)), yaxis: axisOf(colors, "", rangeOf(view, f)) };
    return [traces, layout];
  }

  function dotsOf({ problem, values }, path, from, to, { size, opacity, name }) {
    const x = path.x.slice(from, to + 1);
    return {
      type: "scatter",
      mode: "markers",
      name,
      x,
      y: x.map((value) => interpolate(problem.axes, values, [value])),
      opacity,
      marker: { color: path.color, size, symbol: path.look.symbol, line: { color: "#ffffff", width: size > 10 ? 2 : size > 5 ? 0.5 : 0 } },
      hoverinfo: "skip",
    };
  }

  /** The interval of F and f that is shown. */
  function rangeOf(view, f) {
    const behind = scaleOf(f);
    const low = Math.min(view.scale.low, behind.low);
    const high = Math.max(topOf(view), behind.cut);
    const space = 0.05 * (high - low) || 1;
    return [low - space, high + space];
  }

  // Controls

  let webgl = null;

  function hasWebGL() {
    if (webgl === null) {
      const context = document.createElement("canvas").getContext("webgl");
      webgl = context !== null;
      context?.getExtension("WEBGL_lose_context")?.loseContext();
    }
    return webgl;
  }

  /** A path's line and symbol, for the buttons that choose it. */
  function swatchOf(path) {
    const svg = (name, attributes, ...children) => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", name);
      Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
      element.append(...children);
      return element;
    };
    const line = svg("path", { d: "M-17 0h34", stroke: path.color, "stroke-width": 2.5, "stroke-dasharray": path.look.dashes });
    const symbol = svg("path", { d: path.look.shape, fill: path.color, stroke: "#ffffff" });
    return svg("svg", { width: 36, height: 18, viewBox: "-18 -9 36 18" }, line, symbol);
  }

  /** The value at a record of a path, and the t of the map that shows it. */
  function placeOf(path, k, t) {
    return `f = ${show(path.fun[k])}, map of F(x, ${show(t)})`;
  }

  class Explorer {
    constructor(root) {
      const find = (selector) => root.querySelector(selector);
      this.problem = read(find("script").textContent);
      this.sliders = { t: find(".t input"), k: find(".k input"), turn: find(".turn input") };
      this.outputs = { t: find(".t output"), k: find(".k output"), status: find(".status"), picture: find(".pictured"), path: find(".at") };
      this.plots = { map: find(".map"), second: find(".second"), surface: find(".surface"), curve: find(".curve"), curves: find(".curves") };
      this.titles = { map: find(".of-map"), second: find(".of-second") };
      this.menu = find("select");
      this.radios = [...root.querySelectorAll("input[type=radio]")];
      this.button = find(".play");
      this.panels = find(".panels");
      this.busy = false;
      this.t = this.problem.t[0];
      // The last method of a list is the one that the others are there to be compared with.
      this.chosen = this.problem.paths.length - 1;
      this.second = 0; // the method beside it
      this.k = 0;
      this.free = false; // whether t was set by hand: both maps show it
      this.angle = this.plots.surface ? lowSideOf(this.problem) : 0;
      this.dragged = null; // where the eye was dragged to
      this.watched = false;
      this.replay = null;
      this.prepare();
      this.listen();
      if (this.path) this.moveTo(0);
      else this.update();
    }

    get path() {
      return this.problem.paths[this.chosen];
    }

    /** The path beside the chosen one, if there is one. */
    get beside() {
      return this.menu ? this.problem.paths[this.second] : null;
    }

    get last() {
      return this.path.t.length - 1;
    }

    /** Fill in what depends on the data. */
    prepare() {
      this.sliders.t.max = (this.problem.t.length - 1) * FINE;
      this.radios.forEach((radio, i) => {
        radio.checked = i === this.chosen;
        radio.parentElement.querySelector(".swatch").replaceChildren(swatchOf(this.problem.paths[i]));
      });
      if (this.plots.surface && !hasWebGL()) {
        const note = document.createElement("p");
        note.className = "missing";
        note.textContent = "The surface needs WebGL, which this browser does not offer.";
        this.plots.surface.replaceChildren(note);
        this.plots.surface = null;
        this.sliders.turn.disabled = true;
      }
      if (this.sliders.turn) {
        Object.assign(this.sliders.turn, { min: -180, max: 180, step: 5 });
        this.sliders.turn.value = (Math.atan2(Math.sin(this.angle), Math.cos(this.angle)) * 180) / Math.PI;
      }
    }

    listen() {
      const { t, k, turn } = this.sliders;
      t.addEventListener("input", () => this.setRadius(radiusAt(this.problem, t.value / FINE)));
      k?.addEventListener("input", () => this.setIteration(+k.value));
      turn?.addEventListener("input", () => this.setAngle((turn.value * Math.PI) / 180));
      this.radios.forEach((radio, i) => radio.addEventListener("change", () => this.choose(i)));
      this.menu?.addEventListener("change", () => this.compare(+this.menu.value));
      this.button?.addEventListener("click", () => (this.replay ? this.pause() : this.play()));
      CALM.addEventListener("change", () => this.update());
      DARK.addEventListener("change", () => this.refresh());
    }

    /** Look at another t. The path stays where it is. */
    setRadius(t) {
      this.replay = null;
      this.free = true;
      this.t = t;
      this.update();
    }

    /** Look at another iteration, and at its t. */
    setIteration(k) {
      this.replay = null;
      this.moveTo(k);
    }

    moveTo(k) {
      this.k = k;
      this.free = false;
      this.t = this.radiusOf(this.path, k);
      return this.update();
    }

    /** The t of a path at a record, at most the largest that is shown. */
    radiusOf(path, k) {
      const [t, largest] = [path.t[k], this.problem.t[0]];
      return t < largest ? t : largest;
    }

    setAngle(angle) {
      this.angle = angle;
      this.dragged = null;
      this.refresh();
    }

    eye(narrow) {
      if (this.dragged) return this.dragged;
      const far = narrow ? DISTANCE.narrow : DISTANCE.wide;
      const aside = far * Math.cos(ELEVATION);
      return { x: aside * Math.cos(this.angle), y: aside * Math.sin(this.angle), z: far * Math.sin(ELEVATION) };
    }

    /** Another method, at the same iteration and its t there. */
    choose(i) {
      const iteration = this.path.iteration[this.k];
      if (i === this.second) this.second = this.chosen; // two methods, not one twice
      this.chosen = i;
      this.setIteration(recordOf(this.path, iteration));
    }

    /** Another method beside the chosen one. */
    compare(i) {
      if (i === this.chosen) {
        const before = this.second;
        this.second = i;
        this.choose(before);
        return;
      }
      this.second = i;
      this.update();
    }

    pause() {
      this.replay = null;
      this.update();
    }

    /** Play from the current iteration to the end, or from the start if it has ended. With reduced motion, move one step. */
    async play() {
      const from = this.k < this.last ? this.k : 0;
      if (CALM.matches) {
        this.moveTo(Math.min(this.last, from + Math.ceil(this.last / STEPS)));
        return;
      }
      const began = performance.now();
      const replay = {};
      this.replay = replay;
      while (this.replay === replay) {
        const done = ((performance.now() - began) / REPLAY_MS) * this.last;
        const k = Math.min(this.last, Math.floor(from + done));
        if (k === this.last) this.replay = null;
        await this.moveTo(k);
        await nextFrame();
      }
    }

    /** Update controls, texts and plots to the current state. */
    update() {
      const { t } = this;
      this.sliders.t.value = Math.round(positionOf(this.problem, t) * FINE);
      this.sliders.t.setAttribute("aria-valuetext", `t = ${show(t)}`);
      this.outputs.t.textContent = `t = ${show(t)}`;
      // Nobody wants sixty announcements a second.
      this.outputs.status.setAttribute("aria-live", this.replay ? "off" : "polite");
      this.outputs.picture.textContent = `Picture: F(x, ${show(t)})${t === 0 ? " = f(x)" : ""}.`;
      if (this.path) this.showIteration();
      return this.refresh();
    }

    showIteration() {
      const { path, k, last } = this;
      const x = [...path.x.subarray(k * this.problem.axes.length, (k + 1) * this.problem.axes.length)].map(show);
      const at = `${path.iteration[k]} of ${path.iteration[last]}`;
      Object.assign(this.sliders.k, { max: last, value: k, disabled: last === 0 });
      this.sliders.k.setAttribute("aria-valuetext", `iteration ${at}`);
      this.outputs.k.textContent = `k = ${path.iteration[k]}`;
      this.sliders.k.closest(".slider").querySelector(".last").textContent = `end, ${path.iteration[last]}`;
      this.button.textContent = CALM.matches ? "Step" : this.replay ? "Pause" : "Play";
      this.button.disabled = last === 0;
      this.radios.forEach((radio, i) => (radio.checked = i === this.chosen));
      if (this.menu) this.menu.value = this.second;
      const point = x.length > 1 ? `(${x.join(", ")})` : x[0];
      this.outputs.path.textContent = `${path.label || "path"} at iteration ${at}: x = ${point}, f = ${show(path.fun[k])}, its t = ${show(path.t[k])}.`;
    }

    /** Draw, once the drawing that is under way has ended; however often it is asked for meanwhile, once. */
    async refresh() {
      this.stale = true;
      if (this.busy) return;
      this.busy = true;
      this.panels.setAttribute("aria-busy", "true");
      try {
        while (this.stale) {
          this.stale = false;
          await nextFrame();
          await this.draw();
        }
      } finally {
        this.busy = false;
        this.panels.setAttribute("aria-busy", "false");
      }
    }

    async draw() {
      const { problem, path, k, plots } = this;
      const values = valuesAt(problem, positionOf(problem, this.t));
      const view = { problem, values, scale: scaleOf(values), path, k };
      const colors = theme();
      const drawn = [];
      if (path && this.titles.map) this.titles.map.textContent = `${path.label || "path"}: ${placeOf(path, k, this.t)}`;
      if (this.beside && plots.second) {
        const at = recordOf(this.beside, path.iteration[k]);
        const t = this.free ? this.t : this.radiusOf(this.beside, at);
        const F = valuesAt(problem, positionOf(problem, t));
        this.titles.second.textContent = placeOf(this.beside, at, t);
        const other = { problem, values: F, scale: scaleOf(F), path: this.beside, k: at };
        drawn.push(Plotly.react(plots.second, ...mapOf(other, colors, plots.second.clientWidth < NARROW), CONFIG));
      }
      if (plots.curves && path) drawn.push(Plotly.react(plots.curves, ...curvesOf(view, this.beside, colors), CONFIG));
      if (plots.curve) drawn.push(Plotly.react(plots.curve, ...curveOf(view, colors), CONFIG));
      const narrow = plots.map?.clientWidth < NARROW;
      if (plots.map) drawn.push(Plotly.react(plots.map, ...mapOf(view, colors, narrow), CONFIG));
      if (plots.surface) drawn.push(Plotly.react(plots.surface, ...surfaceOf(view, colors, narrow, this.eye(narrow), this.angle), CONFIG));
      await Promise.all(drawn);
      if (plots.surface && !this.watched) this.watch();
    }

    /** Follow the eye to where it was dragged, not before it is let go: drawing anew would hold it. */
    watch() {
      this.watched = true;
      this.plots.surface.on("plotly_relayout", (change) => {
        if (!change["scene.camera"]) return;
        this.dragged = change["scene.camera"].eye;
        this.refresh();
      });
    }
  }

  // An explorer starts when it is about to be seen: a page may have many.
  const seen = new IntersectionObserver(
    (entries) => {
      entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
        seen.unobserve(entry.target);
        new Explorer(entry.target);
      });
    },
    { rootMargin: "300px" },
  );
  document.querySelectorAll(".explorer").forEach((root) => seen.observe(root));
})();
