// Ages grow without a message from the server.
setInterval(() => document.querySelectorAll("time[data-since]").forEach((each) => {
  let left = Math.max(0, Date.now() / 1000 - each.dataset.since), words = "";
  for (const [letter, unit] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    const number = Math.floor(left / unit);
    left -= number * unit;
    if ((number || words) && words.replace(/\d/g, "").length < 2) words += number + letter;
  }
  if (each.textContent !== (words || "0s")) each.textContent = words || "0s";
}), 250);
// Where the token or the right of who looks has ended, the server says what to show instead.
addEventListener("load", () => {
  window.socket?.on("disconnect", (_, details) => {
    if (details?.context?.code === 1008) location.reload();
  });
  // A browser does not say why a connection was refused.
  window.socket?.on("connect_error", () => fetch("/favicon.ico", { redirect: "manual", cache: "no-store" }).then((answer) => {
    if (answer.type === "opaqueredirect" || answer.status === 403) location.reload();
  }, () => {}));
});
// Keys: q, g, n and w go to the pages, / to the search.
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const to = { q: "/queues", g: "/gangs", n: "/nodes", w: "/what-if" }[event.key];
  if (to) location.href = to;
  if (event.key === "/") { event.preventDefault(); document.querySelector(".search input").focus(); }
});
