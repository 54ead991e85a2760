// Draws the timeline and the overview. What would be narrower than a pixel is merged with its neighbours.

const AXIS = 26;
const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

/** Sizes of a lane, in pixels from its top. The more lanes, the smaller they are. */
function laneSizes(lanes) {
  if (lanes <= 12) return { height: 52, strip: 5, bar: 11, barHeight: 20, writes: 41, mark: 4 };
  if (lanes <= 30) return { height: 32, strip: 4, bar: 7, barHeight: 12, writes: 25, mark: 3 };
  return { height: 20, strip: 3, bar: 4, barHeight: 8, writes: 16, mark: 2 };
}

class Painter {
  constructor(canvas, history, tones) {
    Object.assign(this, { canvas, history, tones, context: canvas.getContext("2d"), size: laneSizes(history.lanes.length) });
    this.engineRow = history.engineFaults.items.length ? 24 : 0;
    this.top = AXIS + this.engineRow;
    this.height = this.top + Math.max(1, history.lanes.length) * this.size.height + 1;
  }

  /** Fit the canvas to its place in the page, and read the colours again. */
  fit() {
    this.width = fitCanvas(this.canvas, this.height);
    this.colours = palette();
    this.context.font = FONT;
    const names = [...this.history.lanes.map((each) => short(each.name)), this.engineRow ? "engine" : ""];
    this.left = Math.min(96, 14 + Math.max(...names.map((each) => this.context.measureText(each).width)));
  }

  x(at) {
    return this.left + ((at - this.from) / (this.until - this.from)) * (this.width - this.left);
  }

  at(x) {
    return this.from + ((x - this.left) / (this.width - this.left)) * (this.until - this.from);
  }

  laneTop(number) {
    return this.top + number * this.size.height;
  }

  paint(from, until, chosen) {
    Object.assign(this, { from, until, chosen });
    const { context, colours, width, height } = this;
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.fillStyle = colours.panel;
    context.fillRect(0, 0, width, height);
    context.save();
    context.beginPath();
    context.rect(this.left, 0, width - this.left, height);
    context.clip();
    this.lives();
    this.ticks();
    this.stalls();
    this.bands();
    for (const lane of this.history.lanes) this.lane(lane);
    this.violations();
    context.restore();
    this.labels();
  }

  /** The ground of a lane is lighter while its process is alive. */
  lives() {
    const { context, colours, size } = this;
    context.fillStyle = colours.raised;
    context.fillRect(this.left, this.top, this.width - this.left, this.height - this.top);
    for (const lane of this.history.lanes) {
      const y = this.laneTop(lane.number);
      context.fillStyle = colours.panel;
      visit(lane.processes, this.from, this.until, (process) => {
        const x = this.x(process.at);
        context.fillRect(x, y, Math.max(1, this.x(process.ends) - x), size.height);
      });
      if (!lane.processes.items.length) context.fillRect(this.left, y, this.width - this.left, size.height);
      context.fillStyle = colours.line;
      context.fillRect(this.left, y + size.height - 0.5, this.width - this.left, 1);
    }
  }

  ticks() {
    const { context, colours } = this;
    const { step, digits } = tickStep((this.until - this.from) / Math.max(2, (this.width - this.left) / 90));
    context.font = FONT;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let n = Math.ceil(this.from / step); n * step <= this.until; n++) {
      const x = Math.round(this.x(n * step)) + 0.5;
      context.fillStyle = colours.line;
      context.fillRect(x - 0.5, AXIS - 5, 1, this.height);
      const label = moment(n * step, digits);
      const half = context.measureText(label).width / 2;
      context.fillStyle = colours.muted;
      context.fillText(label, Math.min(Math.max(x, this.left + half + 2), this.width - half - 2), AXIS / 2 - 1);
    }
  }

  stalls() {
    const { context, colours } = this;
    for (const stall of this.history.stalls) {
      const x = this.x(stall.at);
      const width = Math.max(1, this.x(stall.until ?? stall.at) - x);
      if (x > this.width || x + width < this.left) continue;
      context.fillStyle = colours.stall;
      context.globalAlpha = 0.22;
      context.fillRect(x, AXIS, width, this.height);
      context.globalAlpha = 1;
    }
  }

  /** Faults: of the engine over all lanes, others over their lanes. A strip at the top says which kind. */
  bands() {
    const { context, size } = this;
    const band = (index, y, strip, height, tint) => {
      const tinted = new Merger((x, width, tone) => {
        context.fillStyle = this.colours[tone];
        context.globalAlpha = tint;
        context.fillRect(x, y, width, height);
        context.globalAlpha = 1;
        context.fillRect(x, y, width, strip);
      });
      visit(index, this.from, this.until, (fault) => tinted.add(this.x(fault.at), this.x(fault.ends), this.tones.faults.get(fault.kind) ?? "f0"));
      tinted.flush();
    };
    if (this.engineRow) band(this.history.engineFaults, AXIS, 3, this.height - AXIS, 0.13);
    for (const lane of this.history.lanes) band(lane.faults, this.laneTop(lane.number), size.strip, size.height - 1, 0.2);
    if (this.engineRow) visit(this.history.engineFaults, this.from, this.until, (fault) => this.title(fault, AXIS + 13));
    if (size.height > 40) {
      for (const lane of this.history.lanes) visit(lane.faults, this.from, this.until, (fault) => this.title(fault, this.laneTop(lane.number) + size.writes));
    }
  }

  /** The title of a fault, if there is room. */
  title(fault, y) {
    const { context, colours } = this;
    const left = Math.max(this.left, this.x(fault.at)) + 5;
    const room = Math.min(this.width, this.x(fault.ends)) - left - 4;
    if (room < 24) return;
    const text = visible(fault.title ?? fault.kind, 60);
    if (context.measureText(text).width > room) return;
    context.textAlign = "left";
    context.fillStyle = colours[this.tones.faults.get(fault.kind) ?? "f0"];
    context.fillText(text, left, y);
  }

  lane(lane) {
    const y = this.laneTop(lane.number);
    this.waits(lane, y);
    this.leases(lane, y);
    this.ends(lane, y);
    this.writes(lane, y);
  }

  waits(lane, y) {
    const { context, colours, size } = this;
    const merged = new Merger((x, width) => context.fillRect(x, y + size.bar + size.barHeight / 2 - 1.5, width, 3));
    context.fillStyle = colours.wait;
    visit(lane.attempts, this.from, this.until, (each) => merged.add(this.x(each.at), this.x(each.ends), "wait"));
    merged.flush();
    if (size.height < 30) return;
    context.fillStyle = colours.refused;
    visit(lane.attempts, this.from, this.until, (each) => {
      if (each.outcome === "error") context.fillRect(this.x(each.ends) - 1, y + size.bar + 4, 2, size.barHeight - 8);
    });
  }

  leases(lane, y) {
    const { context, colours, size } = this;
    const top = y + size.bar;
    const merged = new Merger((x, width, tone) => {
      context.fillStyle = colours.panel;
      context.fillRect(x, top, width, size.barHeight);
      context.fillStyle = colours[tone];
      context.globalAlpha = 0.6;
      context.fillRect(x, top, width, size.barHeight);
      context.globalAlpha = 1;
    });
    visit(lane.grants, this.from, this.until, (grant) => {
      const tone = this.tones.leases.of(grant);
      const x = this.x(grant.at);
      const end = this.x(grant.ends);
      if (end - x < 1.5) return merged.add(x, end, tone);
      this.lease(grant, colours[tone], Math.max(x, this.left - 4), Math.min(end, this.width + 4), top);
    });
    merged.flush();
  }

  /** Solid while its holder knew that it held; hollow while it only acted as if. */
  lease(grant, colour, x, end, top) {
    const { context, colours, size } = this;
    const sure = Math.min(end, Math.max(x, this.x(sureUntil(grant))));
    context.fillStyle = colour;
    if (sure > x) context.fillRect(x, top, Math.max(1, sure - x - (end - x > 4 ? 0.5 : 0)), size.barHeight);
    if (end - sure > 1) {
      context.globalAlpha = 0.16;
      context.fillRect(sure, top, end - sure, size.barHeight);
      context.globalAlpha = 1;
      context.strokeStyle = colour;
      context.setLineDash([3, 2]);
      context.strokeRect(sure, top + 0.5, end - sure - 0.5, size.barHeight - 1);
      context.setLineDash([]);
    }
    if (grant === this.chosen?.record) this.frame(x, top, end - x, size.barHeight);
    if (size.barHeight < 12 || sure - x < 26) return;
    const text = fitFence(context, String(grant.fence ?? ""), sure - x - 8);
    context.textAlign = "left";
    context.fillStyle = colours.panel;
    context.fillText(text, x + 4, top + size.barHeight / 2 + 0.5);
  }

  frame(x, y, width, height) {
    this.context.lineWidth = 2;
    this.context.strokeStyle = this.colours.text;
    this.context.strokeRect(x - 2, y - 2, width + 4, height + 4);
    this.context.lineWidth = 1;
  }

  /** Where a process was killed. */
  ends(lane, y) {
    const { context, colours, size } = this;
    visit(lane.processes, this.from, this.until, (process) => {
      if (!["killed", "failed"].includes(process.end)) return;
      const x = this.x(process.ends);
      context.fillStyle = colours.text;
      context.fillRect(x - 1, y + 1, 2, size.height - 2);
    });
  }

  writes(lane, y) {
    const { context, colours, size } = this;
    const runs = [];
    const notable = [];
    visit(lane.writes, this.from, this.until, (write) => {
      const x = this.x(write.at);
      const run = runs.at(-1);
      if (write.outcome !== "accepted" || write.late) notable.push([write, x]);
      else if (run && x - run.until < 2 * size.mark) Object.assign(run, { until: x, writes: run.writes + 1 });
      else runs.push({ write, from: x, until: x, writes: 1 });
    });
    // Where dots would cover one another, a line is enough.
    for (const { write, from, until, writes } of runs) {
      if (writes === 1) {
        this.mark(write, from, y + size.writes);
      } else {
        context.fillStyle = colours.accepted;
        context.fillRect(from - 1.5, y + size.writes - 2, until - from + 3, 4);
      }
    }
    const last = {};
    for (const [write, x] of notable) {
      if (x - (last[write.outcome] ?? -Infinity) >= size.mark) this.mark(write, (last[write.outcome] = x), y + size.writes);
    }
    const chosen = this.chosen?.record;
    if (this.chosen?.kind === "write" && this.history.laneOf(chosen) === lane && chosen.at >= this.from && chosen.at <= this.until) {
      this.frame(this.x(chosen.at) - size.mark - 1, y + size.writes - size.mark - 1, 2 * size.mark + 2, 2 * size.mark + 2);
    }
  }

  /** A dot: accepted. A cross: refused. A ring: nobody knows. A tail: late. */
  mark(write, x, y) {
    const { context, colours, size } = this;
    const r = size.mark;
    const colour = { accepted: colours.accepted, refused: colours.refused }[write.outcome] ?? colours.muted;
    context.fillStyle = context.strokeStyle = colour;
    if (write.late) context.fillRect(x - 3 * r, y - 1, 3 * r, 2);
    context.beginPath();
    if (write.outcome === "refused") {
      context.lineWidth = 2.5;
      context.moveTo(x - r, y - r);
      context.lineTo(x + r, y + r);
      context.moveTo(x + r, y - r);
      context.lineTo(x - r, y + r);
      context.stroke();
    } else {
      context.lineWidth = 1.5;
      context.arc(x, y, r - 0.5, 0, 2 * Math.PI);
      if (write.outcome === "accepted") context.fill();
      else context.stroke();
    }
    context.lineWidth = 1;
  }

  violations() {
    for (const violation of this.history.violations) {
      const span = extent(violation);
      if (!span || span.until < this.from || span.from > this.until) continue;
      this.violation(violation, this.x(span.from), this.x(span.until));
    }
    const { shortest } = this.history;
    if (shortest) for (const [at, event] of numbered(shortest)) this.event(event, at);
  }

  violation(violation, x, end) {
    const { context, colours } = this;
    context.fillStyle = colours.bad;
    context.globalAlpha = 0.09;
    context.fillRect(x, AXIS, end - x, this.height - AXIS);
    context.globalAlpha = 1;
    const frames = violation === this.history.shortest ? 2 : 1;
    context.fillRect(x - frames, AXIS - 6, frames, this.height);
    context.fillRect(end, AXIS - 6, frames, this.height);
    context.fillRect(x - frames, AXIS - 6, end - x + 2 * frames, 3);
  }

  /** The number of an event of the shortest counterexample, where it happened. */
  event(event, number) {
    const place = this.eventPlace(event);
    if (!place) return;
    const { context, colours } = this;
    context.strokeStyle = colours.panel;
    context.fillStyle = colours.bad;
    context.beginPath();
    context.arc(place.x, place.y, 8, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
    context.fillStyle = colours.panel;
    context.textAlign = "center";
    context.fillText(String(number), place.x, place.y + 0.5);
  }

  /** Where the number of an event is drawn. Events close together share their place: the list tells them apart. */
  eventPlace(event) {
    const lane = this.history.laneOf(event);
    if (!lane || !isNumber(event.at)) return null;
    return { x: this.x(event.at), y: this.laneTop(lane.number) + Math.min(5, this.size.height / 2) };
  }

  labels() {
    const { context, colours, size } = this;
    context.fillStyle = colours.panel;
    context.fillRect(0, 0, this.left, this.height);
    context.fillStyle = colours.line;
    context.fillRect(this.left - 0.5, AXIS, 1, this.height);
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillStyle = colours.muted;
    if (this.engineRow) context.fillText("engine", this.left - 7, AXIS + 13);
    context.fillStyle = colours.text;
    for (const lane of this.history.lanes) {
      context.fillText(short(lane.name), this.left - 7, this.laneTop(lane.number) + size.height / 2, this.left - 10);
    }
  }
}

/** Joins bars that are narrower than a pixel, or touch, into one per run of pixels of a tone. */
class Merger {
  constructor(draw) {
    Object.assign(this, { draw, tone: null, from: 0, until: 0 });
  }

  add(from, until, tone) {
    const end = Math.max(until, from + 1);
    if (this.tone === tone && from <= this.until && end - from < 3) {
      this.until = Math.max(this.until, end);
      return;
    }
    this.flush();
    Object.assign(this, { tone, from, until: end });
  }

  flush() {
    if (this.tone !== null) this.draw(this.from, this.until - this.from, this.tone);
    this.tone = null;
  }
}

/** The events of a violation with their numbers. */
const numbered = (violation) => (violation.events ?? []).map((event, at) => [at + 1, event]);

const short = (name) => visible(name, 14).slice(0, 14);

/** As much of a fence as there is room for. Its last digits tell it from its neighbours. */
function fitFence(context, fence, room) {
  const digits = Math.floor(room / context.measureText("0").width);
  if (fence.length <= digits) return fence;
  return digits > 3 ? `…${fence.slice(1 - digits)}` : "";
}

/** A step of 1, 2 or 5 times a power of ten, and how many digits its labels need. */
function tickStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least);
  return { step, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

/** Make the bitmap of a canvas as fine as the screen. Returns its width in the pixels of the page. */
function fitCanvas(canvas, height) {
  const width = canvas.clientWidth;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * devicePixelRatio);
  canvas.height = Math.round(height * devicePixelRatio);
  return width;
}
