// The explorer: F(x, t) of one or two variables for any t, and the paths of the methods through it.
"use strict";

(() => {
  const REPLAY_MS = 8000; // a whole path
  const STEPS = 20; // presses of the button for a whole path where motion is unwelcome
  const FINE = 4; // positions of the slider of t between two frames
  const BEND = 0.03; // this share of the picture lies where colours are still linear
  const CUT = 0.85; // the surface shows at least this share of the picture
  const HEIGHT = 0.7; // of the surface, its sides being 1
  const LEVELS = 24;
  const NARROW = 420; // pixels
  const FAINT = 0.5;

  const CALM = matchMedia("(prefers-reduced-motion: reduce)");
  const DARK = matchMedia("(prefers-color-scheme: dark)");

  // Paths differ in colour, dash and symbol: for plots by name, for the buttons as SVG.
  const LOOKS = [
    { symbol: "circle", dash: "solid", dashes: "", shape: "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z" },
    { symbol: "square", dash: "dash", dashes: "6 3", shape: "M-4-4h8v8h-8z" },
    { symbol: "diamond", dash: "dashdot", dashes: "6 3 2 3", shape: "M0-5.5L5.5 0L0 5.5L-5.5 0z" },
    { symbol: "triangle-up", dash: "dot", dashes: "2 3", shape: "M0-5.5L5 4.5h-10z" },
    { symbol: "cross", dash: "longdash", dashes: "10 3", shape: "M-2-5h4v3h3v4h-3v3h-4v-3h-3v-4h3z" },
    { symbol: "x", dash: "longdashdot", dashes: "10 3 2 3", shape: "M0-2.8L2.8-5.5L5.5-2.8L2.8 0L5.5 2.8L2.8 5.5L0 2.8L-2.8 5.5L-5.5 2.8L-2.8 0L-5.5-2.8L-2.8-5.5z" },
    { symbol: "star", dash: "solid", dashes: "", shape: "M0-6L1.5-2L5.7-1.9L2.4.8L3.5 4.9L0 2.5L-3.5 4.9L-2.4.8L-5.7-1.9L-1.5-2z" },
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
      colour: path.colour,
      look: LOOKS[i % LOOKS.length],
      iteration: decode(path.iteration, Float64Array),
      x: decode(path.x, Float64Array),
      t: decode(path.t, Float64Array),
      fun: decode(path.fun, Float64Array),
    }));
    return {
      axes,
      paths,
      size: axes.reduce((product, axis) => product * axis.length, 1),
      t: decode(data.t, Float64Array),
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

  /** Points of a path up to iteration k, with others between them so that none is further than `step` from the next. */
  function wayOf(path, d, k, step) {
    const points = [];
    for (let i = 0; i <= k; i += 1) {
      const to = path.x.subarray(i * d, (i + 1) * d);
      const from = i > 0 ? path.x.subarray((i - 1) * d, i * d) : to;
      const distance = Math.hypot(...to.map((value, j) => value - from[j]));
      const pieces = clamp(Math.ceil(distance / step) || 1, 1, 200);
      for (let n = 1; n <= pieces; n += 1) points.push(Array.from(to, (value, j) => from[j] + (n / pieces) * (value - from[j])));
    }
    return points;
  }

  /** The last of a path's iterations at which it was no further than t; the same share of the way where t never fell. */
  function iterationAt(path, t, share) {
    const last = path.t.length - 1;
    if (!falls(path)) return Math.round(share * last);
    let k = last;
    while (k > 0 && !(path.t[k] >= t * (1 - 1e-9))) k -= 1;
    return k;
  }

  function falls(path) {
    return Math.max(...path.t) > Math.min(...path.t);
  }

  /** Colours: logarithmic above the least value, linear close to it. Maps F to [0, 1] and back. */
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
      colour: (value) => Math.log1p((value - low) / bend) / top,
      value: (colour) => low + bend * Math.expm1(colour * top),
    };
  }

  /** The angle from which f is best looked at: from where it is low, a little aslant. */
  function lowSideOf({ axes, t, size, above }) {
    const f = above.subarray((t.length - 1) * size);
    const { colour } = scaleOf(f);
    const [nx, ny] = axes.map((axis) => axis.length);
    const pull = [0, 0];
    f.forEach((value, j) => {
      if (!Number.isFinite(value)) return;
      pull[0] -= colour(value) * ((j % nx) / (nx - 1) - 0.5);
      pull[1] -= colour(value) * (Math.floor(j / nx) / (ny - 1) - 0.5);
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
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    return { paper: colour("paper"), ink: colour("ink"), soft: colour("soft"), line: colour("line") };
  }

  function layoutOf(colours) {
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colours.ink, size: 12, family: getComputedStyle(document.body).fontFamily },
      margin: { l: 44, r: 12, t: 12, b: 40 },
      showlegend: false,
      hovermode: "closest",
      dragmode: false,
      uirevision: "kept",
    };
  }

  function axisOf(colours, title, range) {
    return {
      title: { text: title, standoff: 6 },
      range,
      gridcolor: colours.line,
      linecolor: colours.soft,
      zeroline: false,
      ticks: "outside",
      tickcolor: colours.soft,
      fixedrange: true,
    };
  }

  const endsOf = (axis) => [axis[0], axis[axis.length - 1]];

  /** Contours of F and the paths over them. */
  function mapOf(view, colours, narrow) {
    const { problem, values, scale, path, k } = view;
    const [x, y] = problem.axes;
    const traces = [
      {
        type: "contour",
        x,
        y,
        z: rowsOf(values.map(scale.colour), x.length),
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
    // The chosen path is drawn last, and as far as it has come in full strength.
    [...problem.paths].sort((a, b) => (a === path) - (b === path)).forEach((other) => {
      traces.push(...routeOf(other, other.t.length - 1, { width: 2, dash: other.look.dash, ground: FAINT, end: other === path ? 0 : 9 }));
    });
    if (path) traces.push(...routeOf(path, k, { width: 4, end: 15, name: "chosen" }));
    const layout = { ...layoutOf(colours), xaxis: axisOf(colours, "x", endsOf(x)), yaxis: axisOf(colours, "y", endsOf(y)) };
    // The bar has its place, however long its numbers are: the map must not jump while t is dragged.
    layout.margin = { l: 44, r: narrow ? 16 : 80, t: 14, b: narrow ? 84 : 44, autoexpand: false };
    return [traces, layout];
  }

  /** The values of F that the colours stand for, beside the map or where it is narrow below. */
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

  /** A path in the plane up to iteration k, on white so that it shows on all colours, and a symbol of size `end` there. */
  function routeOf(path, k, { width, end, dash = "solid", ground = 1, name = "" }) {
    const column = (j) => path.x.subarray(0, 2 * (k + 1)).filter((_, i) => i % 2 === j);
    const line = {
      type: "scatter",
      mode: "lines",
      name,
      x: column(0),
      y: column(1),
      line: { color: path.colour, width, dash },
      hoverinfo: "skip",
    };
    const below = { ...line, name: "", opacity: ground, line: { color: "#ffffff", width: width + 2 } };
    const marker = { color: path.colour, size: end, symbol: path.look.symbol, line: { color: "#ffffff", width: end > 10 ? 2 : 1 } };
    const dot = { ...line, mode: "markers", name: name && "now", x: [path.x[2 * k]], y: [path.x[2 * k + 1]], marker };
    return end ? [below, line, dot] : [below, line];
  }

  /** F as a surface, with the chosen path on it. */
  function surfaceOf(view, colours, narrow, angle) {
    const { problem, values, scale, path } = view;
    const [x, y] = problem.axes;
    // The library fails on a surface without a single value.
    if (scale.empty) return [[], { ...layoutOf(colours), xaxis: { visible: false }, yaxis: { visible: false } }];
    const top = topOf(view);
    const traces = [
      {
        type: "surface",
        x,
        y,
        z: rowsOf(values, x.length),
        surfacecolor: rowsOf(values.map(scale.colour), x.length),
        cmin: 0,
        cmax: 1,
        colorscale: "Viridis",
        showscale: false,
        lighting: { ambient: 0.85, diffuse: 0.4, specular: 0.02, roughness: 0.9 },
        hovertemplate: "x = %{x:.4g}<br>y = %{y:.4g}<br>F = %{z:.4g}<extra></extra>",
      },
    ];
    const far = narrow ? 1.65 : 1.45;
    const eye = { x: far * Math.cos(angle), y: far * Math.sin(angle), z: 0.95 * far };
    if (path) traces.push(...liftedOf(view, top, eye));
    const axis = (title, range) => ({ title: { text: title }, range, gridcolor: colours.line, color: colours.soft, showspikes: false, nticks: 5, tickfont: { size: 11 } });
    const layout = {
      ...layoutOf(colours),
      margin: { l: 0, r: 0, t: 0, b: 0 },
      scene: {
        xaxis: axis("x", endsOf(x)),
        yaxis: axis("y", endsOf(y)),
        zaxis: axis("F", [scale.low, top > scale.low ? top : scale.low + 1]),
        aspectmode: "manual",
        aspectratio: { x: 1, y: 1, z: HEIGHT },
        camera: { eye, center: { x: 0, y: 0, z: -0.15 } },
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

  /** The chosen path, moved from the surface a little towards the eye so that it is not hidden in it. */
  function liftedOf({ problem, values, scale, path, k }, top, eye) {
    const [x, y] = problem.axes;
    const way = wayOf(path, 2, k, x[1] - x[0]).map((point) => [...point, interpolate(problem.axes, values, point)]);
    const sides = [x, y, [scale.low, top]].map((axis) => endsOf(axis)[1] - endsOf(axis)[0]);
    const sight = [eye.x * sides[0], eye.y * sides[1], (eye.z / HEIGHT) * sides[2]];
    const column = (points, j, lift) => points.map((point) => point[j] + lift * sight[j]);
    const trace = (points, lift) => ({
      type: "scatter3d",
      x: column(points, 0, lift),
      y: column(points, 1, lift),
      z: column(points, 2, lift),
      hoverinfo: "skip",
    });
    const marker = { color: path.colour, size: 7, line: { color: "#ffffff", width: 2 } };
    return [
      { ...trace(way, 0.008), mode: "lines", name: "", line: { color: "#ffffff", width: 10 } },
      { ...trace(way, 0.012), mode: "lines", name: "chosen", line: { color: path.colour, width: 6 } },
      { ...trace(way.slice(-1), 0.06), mode: "markers", name: "now", marker },
    ];
  }

  /** F over x, f behind it, and the paths as dots on it. */
  function curveOf(view, colours) {
    const { problem, values, path, k } = view;
    const [x] = problem.axes;
    const f = valuesAt(problem, problem.t.length - 1);
    const curve = { type: "scatter", mode: "lines", x };
    const traces = [
      { ...curve, name: "f", y: f, line: { color: colours.soft, width: 1.5 }, opacity: 0.6, hovertemplate: "x = %{x:.4g}<br>f = %{y:.4g}<extra></extra>" },
      { ...curve, name: "F", y: values, line: { color: colours.ink, width: 2.5 }, hovertemplate: "x = %{x:.4g}<br>F = %{y:.4g}<extra></extra>" },
    ];
    problem.paths.forEach((other) => {
      if (other !== path) traces.push(dotsOf(view, other, 0, other.t.length - 1, { size: 5, opacity: FAINT }));
    });
    if (path) {
      traces.push(dotsOf(view, path, 0, k, { size: 7, opacity: 0.6, name: "chosen" }));
      traces.push(dotsOf(view, path, k, k, { size: 15, opacity: 1, name: "now" }));
    }
    const layout = { ...layoutOf(colours), xaxis: axisOf(colours, "x", endsOf(x)), yaxis: axisOf(colours, "", rangeOf(view, f)) };
    return [traces, layout];
  }

  function dotsOf({ problem, values }, path, from, to, { size, opacity, name = "" }) {
    const x = path.x.slice(from, to + 1);
    return {
      type: "scatter",
      mode: "markers",
      name,
      x,
      y: x.map((value) => interpolate(problem.axes, values, [value])),
      opacity,
      marker: { color: path.colour, size, symbol: path.look.symbol, line: { color: "#ffffff", width: size > 10 ? 2 : 0.5 } },
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
    const line = svg("path", { d: "M-17 0h34", stroke: path.colour, "stroke-width": 2.5, "stroke-dasharray": path.look.dashes });
    const symbol = svg("path", { d: path.look.shape, fill: path.colour, stroke: "#ffffff" });
    return svg("svg", { width: 36, height: 18, viewBox: "-18 -9 36 18" }, line, symbol);
  }

  class Explorer {
    constructor(root) {
      const find = (selector) => root.querySelector(selector);
      this.problem = read(find("script").textContent);
      this.sliders = { t: find(".t input"), k: find(".k input"), turn: find(".turn input") };
      this.outputs = { t: find(".t output"), k: find(".k output"), status: find(".status") };
      this.plots = { map: find(".map"), surface: find(".surface"), curve: find(".curve") };
      this.radios = [...root.querySelectorAll("input[type=radio]")];
      this.button = find(".play");
      this.panels = find(".panels");
      this.busy = false;
      this.position = 0;
      this.chosen = Math.max(0, this.problem.paths.findIndex(falls));
      this.k = 0;
      this.angle = this.plots.surface ? lowSideOf(this.problem) : 0;
      this.replay = null;
      this.prepare();
      this.listen();
      this.update();
    }

    get path() {
      return this.problem.paths[this.chosen];
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
      t.addEventListener("input", () => this.setPosition(t.value / FINE));
      k?.addEventListener("input", () => this.setIteration(+k.value));
      turn?.addEventListener("input", () => this.setAngle((turn.value * Math.PI) / 180));
      this.radios.forEach((radio, i) => radio.addEventListener("change", () => this.choose(i)));
      this.button?.addEventListener("click", () => (this.replay ? this.pause() : this.play()));
      CALM.addEventListener("change", () => this.update());
      DARK.addEventListener("change", () => this.refresh());
    }

    /** Look at another t, and at the chosen path where it had come to it. */
    setPosition(position) {
      this.replay = null;
      this.position = position;
      if (this.path) this.k = iterationAt(this.path, radiusAt(this.problem, position), this.k / (this.last || 1));
      this.update();
    }

    /** Look at another iteration, and at its t. */
    setIteration(k) {
      this.replay = null;
      this.moveTo(k);
    }

    moveTo(k) {
      this.k = k;
      this.position = positionOf(this.problem, this.path.t[k]);
      return this.update();
    }

    setAngle(angle) {
      this.angle = angle;
      this.refresh();
    }

    /** Another method, at the same t. */
    choose(i) {
      this.replay = null;
      const share = this.k / (this.last || 1);
      this.chosen = i;
      this.k = iterationAt(this.path, radiusAt(this.problem, this.position), share);
      this.update();
    }

    pause() {
      this.replay = null;
      this.update();
    }

    /** From where it stands to the end, from the start if it has ended; a step at a time where motion is unwelcome. */
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

    /** Bring controls, texts and plots to where things stand. */
    update() {
      const t = radiusAt(this.problem, this.position);
      this.sliders.t.value = Math.round(this.position * FINE);
      this.sliders.t.setAttribute("aria-valuetext", `t = ${show(t)}`);
      this.outputs.t.textContent = `t = ${show(t)}`;
      if (this.path) this.tell();
      return this.refresh();
    }

    tell() {
      const { path, k, last } = this;
      const x = [...path.x.subarray(k * this.problem.axes.length, (k + 1) * this.problem.axes.length)].map(show);
      const at = `${path.iteration[k]} of ${path.iteration[last]}`;
      Object.assign(this.sliders.k, { max: last, value: k, disabled: last === 0 });
      this.sliders.k.setAttribute("aria-valuetext", `iteration ${at}`);
      this.outputs.k.textContent = at;
      this.button.textContent = CALM.matches ? "Step" : this.replay ? "Pause" : "Play";
      this.button.disabled = last === 0;
      // Nobody wants sixty announcements a second.
      this.outputs.status.setAttribute("aria-live", this.replay ? "off" : "polite");
      const point = x.length > 1 ? `(${x.join(", ")})` : x[0];
      this.outputs.status.textContent = `${path.label || "path"}, iteration ${at}: t = ${show(path.t[k])}, x = ${point}, f(x) = ${show(path.fun[k])}`;
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
      const { problem, path, k, position, plots } = this;
      const values = valuesAt(problem, position);
      const view = { problem, values, scale: scaleOf(values), path, k };
      const colours = theme();
      const drawn = [];
      if (plots.curve) drawn.push(Plotly.react(plots.curve, ...curveOf(view, colours), CONFIG));
      const narrow = plots.map?.clientWidth < NARROW;
      if (plots.map) drawn.push(Plotly.react(plots.map, ...mapOf(view, colours, narrow), CONFIG));
      if (plots.surface) drawn.push(Plotly.react(plots.surface, ...surfaceOf(view, colours, narrow, this.angle), CONFIG));
      await Promise.all(drawn);
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
