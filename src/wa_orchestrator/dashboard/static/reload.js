// A page that was opened from another site came without the strict cookie. With a fragment in the address a refresh would not ask the
// server again, so the page is opened anew from here, under an address that differs.
if (location.hash) {
  window.stop()
  location.replace(`${location.pathname}?here${location.hash}`)
}
