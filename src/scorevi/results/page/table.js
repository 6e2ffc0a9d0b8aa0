"use strict";

/* A table to sort, to search and to turn the pages of. Only one page is in the document, so that
   thousands of rows open at once.

   columns: {heading, value: row => number or text, cell: row => node or text, kind}
   options: {label, searched: row => text, size, printed: rows on paper,
             mark: row => whether it is chosen} */

class PagedTable {
  constructor(host, columns, rows, options) {
    Object.assign(this, { columns, rows, options });
    this.order = rows.map((_, place) => place);
    this.shown = this.order;
    this.sorted = { column: -1, down: false };
    this.page = 0;
    this.size = options.size || 25;
    this.body = element("tbody");
    this.heads = columns.map((column, place) =>
      element("th", { scope: "col", class: column.kind || null },
        column.value
          ? element("button", { type: "button", onclick: () => this.sort(place) }, column.heading)
          : column.heading));
    const head = element("thead", {}, element("tr", {}, ...this.heads));
    const table = element("table", { "aria-label": options.label }, head, this.body);
    host.append(this.controls(), element("div", { class: "scroll" }, table));
    this.draw();
    addEventListener("beforeprint", () => this.draw(options.printed || 200));
    addEventListener("afterprint", () => this.draw());
  }

  controls() {
    this.search = element("input", {
      type: "search", placeholder: `search ${this.options.label}`, autocomplete: "off",
      spellcheck: "false", "aria-label": `search ${this.options.label}`,
      oninput: () => this.find(this.search.value),
    });
    const sizes = [10, 25, 100, 500].filter(n => n === this.size || n < 2 * this.rows.length);
    this.select = element("select", {
      "aria-label": "rows on a page",
      onchange: () => { this.size = Number(this.select.value); this.page = 0; this.draw(); },
    }, ...sizes.map(n => element("option", n === this.size ? { selected: "" } : {}, String(n))));
    this.back = element("button", { type: "button", onclick: () => this.turn(-1) }, "← back");
    this.next = element("button", { type: "button", onclick: () => this.turn(1) }, "next →");
    this.count = element("span", { class: "count", role: "status" });
    const controls = element("div", { class: "controls" }, this.search, this.count,
      element("span", { class: "pages" }, this.back, " ", this.next, " ", this.select, " a page"));
    controls.hidden = this.rows.length <= 5;
    return controls;
  }

  find(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.wanted = words;
    this.page = 0;
    this.filter();
    this.draw();
  }

  filter() {
    const words = this.wanted || [];
    this.shown = words.length === 0 ? this.order : this.order.filter(place => {
      const text = this.options.searched(this.rows[place]).toLowerCase();
      return words.every(word => text.includes(word));
    });
  }

  sort(column) {
    const down = this.sorted.column === column ? !this.sorted.down : false;
    this.sorted = { column, down };
    const keys = this.rows.map(row => this.columns[column].value(row));
    const sign = down ? -1 : 1;
    this.order = this.rows.map((_, place) => place).sort((a, b) => {
      const [one, other] = [keys[a], keys[b]];
      if (one === null || other === null) return (one === null) - (other === null) || a - b;
      const text = typeof one === "string";
      const order = text ? one.localeCompare(other, undefined, { numeric: true }) : one - other;
      return sign * order || a - b;
    });
    this.page = 0;
    this.filter();
    this.draw();
  }

  turn(by) {
    this.page += by;
    this.draw();
  }

  draw(most = this.size) {
    const last = Math.max(0, Math.ceil(this.shown.length / most) - 1);
    const page = Math.min(Math.max(0, this.page), last);
    if (most === this.size) this.page = page;
    const begin = page * most;
    const places = this.shown.slice(begin, begin + most);
    this.body.replaceChildren(...places.map(place => this.line(this.rows[place])));
    this.heads.forEach((head, place) => {
      const way = this.sorted.down ? "descending" : "ascending";
      head.setAttribute("aria-sort", place === this.sorted.column ? way : "none");
    });
    const range = places.length ? `${begin + 1}–${begin + places.length} of ` : "";
    const all = this.shown.length < this.rows.length ? ` (${this.rows.length} in all)` : "";
    this.count.textContent = `${range}${this.shown.length}${all}`;
    this.back.disabled = page === 0;
    this.next.disabled = page >= last;
  }

  line(row) {
    const cells = this.columns.map(column =>
      element("td", { class: column.kind || null },
        column.cell ? column.cell(row) : numeral(column.value(row))));
    const chosen = this.options.mark && this.options.mark(row);
    return element("tr", { class: chosen ? "chosen" : null }, ...cells);
  }
}
