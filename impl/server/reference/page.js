(function () {
  "use strict";
  // Anchors of the time when there was one page lead to the page they are on now.
  function follow() {
    var entry = location.pathname === "/docs" && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    var link = entry && entry.closest("#operations li, #operations section") && entry.querySelector("a");
    if (link) location.replace(link.href);
  }
  addEventListener("hashchange", follow);
  follow();

  // Search: on the page about all it filters the list, from another it leads there.
  var form = document.querySelector(".search"), input = document.getElementById("search");
  var list = document.getElementById("operations"), found = document.getElementById("found");
  form.hidden = false;
  function search() {
    var words = input.value.toLowerCase().split(/\s+/), matches = 0;
    list.querySelectorAll("section").forEach(function (service) {
      var some = false;
      service.querySelectorAll("li").forEach(function (entry) {
        var text = (service.id + " " + entry.id + " " + entry.textContent).toLowerCase();
        entry.hidden = !words.every(function (word) { return text.indexOf(word) >= 0; });
        if (!entry.hidden) { some = true; matches++; }
      });
      service.hidden = !some;
    });
    document.getElementById("introduction").classList.toggle("searching", input.value !== "");
    found.textContent = input.value === "" ? "" : matches + (matches === 1 ? " operation" : " operations");
  }
  if (list) {
    input.addEventListener("input", search);
    form.addEventListener("submit", function (event) {
      event.preventDefault();
      var first = list.querySelector("li:not([hidden]) a");
      if (input.value !== "" && first) location.href = first.href;
    });
    var asked = new URLSearchParams(location.search).get("q");
    if (asked) { input.value = asked; search(); }
  }
  addEventListener("keydown", function (event) {
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); input.focus(); }
  });

  // A button that copies each command.
  document.querySelectorAll(".command").forEach(function (command) {
    var pre = command.querySelector("pre"), button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", function () {
      var done = function () {
        button.textContent = "Copied";
        setTimeout(function () { button.textContent = "Copy"; }, 2000);
      };
      if (navigator.clipboard) { navigator.clipboard.writeText(pre.textContent).then(done); return; }
      var range = document.createRange(); // without TLS
      range.selectNodeContents(pre);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      if (document.execCommand("copy")) done();
    });
    command.insertBefore(button, pre);
  });
})();
