// Pages opened from the file system may not start workers, and the search runs in one. Here it runs in
// a frame instead: same script, same messages, no server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.inner = new Promise((ready, failed) => {
        const frame = document.createElement("iframe");
        frame.hidden = true;
        frame.srcdoc = "<!doctype html>";
        frame.onload = () => {
          const inner = frame.contentWindow;
          inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inner.document.createElement("script");
          Object.assign(script, { src: url, onload: () => ready(inner), onerror: failed });
          inner.document.head.append(script);
        };
        document.documentElement.append(frame);
      });
    }
    postMessage(data) {
      this.inner.then((inner) => inner.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
