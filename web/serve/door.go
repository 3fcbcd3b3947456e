package serve

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// cookieName has no "__Host-" in front: that needs TLS, and the page is served on loopback only. Browsers send cookies
// to all ports of a host, so that the name has the port in it: two `porthole web` on one machine do not end each
// other's sessions. For the same reason the cookie is for door.path alone: another server of this machine, to which a
// browser is led, does not know it, and so never gets the cookie.
const cookieName = "porthole-web-%d"

// door lets in browsers that bring the token of the printed link. A token works once; a browser that has used it gets
// a cookie, which every tab of it has. Then there is a new token, so that the next browser can be let in.
type door struct {
	port int
	path string // below which everything is: "/", random bits, "/"
	// admitted is called with each new link after the first.
	admitted func(link string)

	mu       sync.Mutex
	token    string
	sessions map[string]bool
}

func newDoor(port int, admitted func(string)) *door {
	return &door{port: port, path: "/" + secret() + "/", admitted: admitted, token: secret(),
		sessions: map[string]bool{}}
}

// secret returns 256 random bits as text.
func secret() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails (package crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b)
}

func (d *door) link() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprintf("http://127.0.0.1:%d%s?token=%s", d.port, d.path, d.token)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func (d *door) known(r *http.Request) bool {
	cookie, err := r.Cookie(fmt.Sprintf(cookieName, d.port))
	if err != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.sessions {
		if same(s, cookie.Value) {
			return true
		}
	}
	return false
}

// admit exchanges the token for a cookie; false if it is not the token of now.
func (d *door) admit(w http.ResponseWriter, token string) bool {
	d.mu.Lock()
	if !same(token, d.token) {
		d.mu.Unlock()
		return false
	}
	session := secret()
	d.sessions[session] = true
	d.token = secret()
	d.mu.Unlock()

	// Lax, as addresses of views are sent to people: a link in a chat that runs in the browser is one of another site.
	http.SetCookie(w, &http.Cookie{Name: fmt.Sprintf(cookieName, d.port), Value: session, Path: d.path, HttpOnly: true,
		SameSite: http.SameSiteLaxMode})
	d.admitted(d.link())
	return true
}

// guard passes on only requests of browsers that were let in, that were sent to this machine by its own name, and that
// no other site caused.
func (d *door) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w)
		if !ownHost(r.Host) {
			refuse(w, r, http.StatusMisdirectedRequest,
				"This address is not one of porthole web: use the link that it printed.")
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead && !sameOrigin(r) {
			refuse(w, r, http.StatusForbidden, "Another site asked for a change.")
			return
		}

		if !d.below(r.URL.Path) {
			refuse(w, r, http.StatusUnauthorized,
				"This is no address of the page: use the last link that porthole web printed in its terminal.")
			return
		}
		if token := r.URL.Query().Get("token"); token != "" && r.URL.Path == d.path {
			if !d.known(r) && !d.admit(w, token) {
				refuse(w, r, http.StatusUnauthorized,
					"The token in this link was used already, or is not one. porthole web prints a new link each time one was used: take the last one from its terminal.")
				return
			}
			// Without the token in the address, it is in no history and in no address that is sent to somebody.
			http.Redirect(w, r, d.path, http.StatusSeeOther)
			return
		}
		if !d.known(r) {
			refuse(w, r, http.StatusUnauthorized,
				"This browser has not used the link of porthole web yet: take the last one that it printed in its terminal.")
			return
		}
		http.StripPrefix(strings.TrimSuffix(d.path, "/"), next).ServeHTTP(w, r)
	})
}

// below reports whether an address is one of the page. It takes the same time for each that begins differently.
func (d *door) below(path string) bool {
	return len(path) >= len(d.path) && same(path[:len(d.path)], d.path)
}

// ownHost keeps out names of other sites that lead to 127.0.0.1 (DNS rebinding).
func ownHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return name == "127.0.0.1" || name == "localhost" || name == "::1" || name == "[::1]"
}

func sameOrigin(r *http.Request) bool {
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host == r.Host
}

// policy allows what the page consists of and nothing else. plotStyle is the style element that Observable Plot 0.6.17
// writes into each plot: a test of the page fails with the sum to write here if another version writes another one.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' " + plotStyle +
	"; img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; " +
	"manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const plotStyle = "'sha256-YMvTNO0iPj2ICPqPbusPJDYtts7hipl4dMbX16UNOTY='"

func secure(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}
