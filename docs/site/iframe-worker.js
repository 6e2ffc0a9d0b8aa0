// Browsers start no worker for a page that was opened from disk. The search needs one, so there it
// runs in a hidden frame instead; over HTTP nothing is changed.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      const url = new URL(address, location.href).href;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      addEventListener("message", ({ source, data }) => {
        if (source === this.inside) this.dispatchEvent(new MessageEvent("message", { data }));
      });
      this.ready = new Promise((done) => {
        frame.contentDocument.open();
        frame.contentDocument.write(
          "<script>postMessage = (data) => parent.dispatchEvent(" +
            'new MessageEvent("message", { data, source: window }));</script>' +
            `<script src="${url}"></script>`,
        );
        frame.addEventListener("load", done, { once: true });
        frame.contentDocument.close();
      });
    }
    postMessage(data) {
      this.ready.then(() =>
        this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })),
      );
    }
  };
  window.Worker = window.IFrameWorker;
}
