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

  // Search: on the page about all it filters operations and guides, from another it leads there.
  var form = document.querySelector(".search"), input = document.getElementById("search");
  var list = document.getElementById("operations"), guides = document.getElementById("written"), found = document.getElementById("found");
  form.hidden = false;
  function search() {
    var words = input.value.toLowerCase().split(/\s+/), matches = 0, pages = 0;
    function count(n, what) { return n + " " + what + (n === 1 ? "" : "s"); }
    list.querySelectorAll("section").forEach(function (service) {
      var some = false;
      service.querySelectorAll("li").forEach(function (entry) {
        var text = (service.id + " " + entry.id + " " + entry.textContent).toLowerCase();
        entry.hidden = !words.every(function (word) { return text.indexOf(word) >= 0; });
        if (!entry.hidden) { some = true; matches++; }
      });
      service.hidden = !some;
    });
    guides.querySelectorAll("li").forEach(function (entry) { // by all that they say
      var text = (entry.textContent + " " + entry.dataset.words).toLowerCase();
      entry.hidden = !words.every(function (word) { return text.indexOf(word) >= 0; });
      if (!entry.hidden) pages++;
    });
    guides.hidden = input.value === "" || pages === 0;
    list.hidden = input.value !== "" && matches === 0 && pages > 0;
    document.getElementById("introduction").classList.toggle("searching", input.value !== "");
    found.textContent = input.value === "" ? "" : count(matches, "operation") + ", " + count(pages, "guide");
  }
  if (list) {
    input.addEventListener("input", search);
    form.addEventListener("submit", function (event) {
      event.preventDefault();
      if (input.value === "") return;
      var name = input.value.toLowerCase().replace(/\s+/g, ""); // an operation that is named, else what is shown first
      var first = Array.from(list.querySelectorAll("li:not([hidden])")).find(function (entry) { return entry.id.toLowerCase().indexOf(name) >= 0; }) ||
        document.querySelector("#written:not([hidden]) li:not([hidden])") || list.querySelector("li:not([hidden])");
      if (first) location.href = first.querySelector("a").href;
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
