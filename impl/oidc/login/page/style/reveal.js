document.querySelectorAll("input[type=password]").forEach(function (input) {
  var form = input.form, button = document.createElement("button");
  var name = function (shown) { button.textContent = form.dataset[shown ? "hide" : "show"]; };
  button.type = "button";
  button.className = "reveal";
  button.setAttribute("aria-controls", input.id);
  button.setAttribute("aria-pressed", "false");
  name(false);
  button.addEventListener("click", function () {
    var show = input.type === "password";
    input.type = show ? "text" : "password";
    button.setAttribute("aria-pressed", String(show));
    name(show);
    input.focus();
  });
  form.addEventListener("submit", function () { input.type = "password"; }); // browsers keep texts
  input.after(button);
});
