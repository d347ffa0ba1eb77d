// Ages grow, and what is left until a start shrinks, without a message from the server.
setInterval(() => document.querySelectorAll("time[data-since], time[data-until]").forEach((each) => {
  const { since, until } = each.dataset, now = Date.now() / 1000;
  let left = Math.max(0, until ? until - now : now - since), words = "";
  for (const [letter, unit] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]].slice(0, until ? 3 : 4)) {
    const number = Math.floor(left / unit);
    left -= number * unit;
    if ((number || words) && words.replace(/\d/g, "").length < 2) words += number + letter;
  }
  words = until ? (words ? `in ${words}` : "soon") : words || "0s";
  if (each.textContent !== words) each.textContent = words;
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
// Keys: those of the links in the head, / to the search, Escape out of a field.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  document.querySelector(`nav [aria-keyshortcuts="${CSS.escape(event.key)}"]`)?.click();
  if (event.key === "/") { event.preventDefault(); document.querySelector(".search input").focus(); }
});
