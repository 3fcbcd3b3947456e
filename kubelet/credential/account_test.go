package credential

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// cluster is an API server with service accounts. The tokens that it issues are numbered.
type cluster struct {
	has    map[string]v1.ServiceAccount
	life   time.Duration // of tokens
	tokens []string      // what was requested
	fails  error         // of requests for tokens
}

func (c *cluster) ServiceAccount(_ context.Context, _, name string) (*v1.ServiceAccount, error) {
	sa, ok := c.has[name]
	if !ok {
		return nil, errors.New("not found")
	}
	return &sa, nil
}

func (c *cluster) RequestToken(_ context.Context, namespace, account string,
	r *authv1.TokenRequest) (*authv1.TokenRequest, error) {
	if c.fails != nil {
		return nil, c.fails
	}
	ref := r.Spec.BoundObjectRef
	c.tokens = append(c.tokens,
		fmt.Sprint(namespace, "/", account, " ", r.UID, " ", r.Spec.Audiences, " ", ref.Kind, " ", ref.Name, " ",
			ref.UID))
	r.Status = authv1.TokenRequestStatus{Token: fmt.Sprint("t", len(c.tokens)),
		ExpirationTimestamp: metav1.NewTime(time.Now().Add(c.life))}
	return r, nil
}

func account(uid string, annotations ...string) v1.ServiceAccount {
	sa := v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Annotations: map[string]string{}}}
	for _, a := range annotations {
		sa.Annotations[a] = "of-" + uid
	}
	return sa
}

const image = "registry.example.com/a"

// attributes are tokenAttributes.
func attributes(cache string, require bool, keys string) string {
	return fmt.Sprintf(
		"  tokenAttributes: {serviceAccountTokenAudience: reg, cacheType: %s, requireServiceAccount: %v%s}\n", cache,
		require, keys)
}

// TestAccounts: a plugin gets a token of the pod's account, and those annotations of it that the configuration names.
// What it answers is for that account alone, as long as it is the same, or for that token.
func TestAccounts(t *testing.T) {
	const (
		must = ", requiredServiceAccountAnnotationKeys: [need], optionalServiceAccountAnnotationKeys: [may]"
		one  = "one/p1 two/p2 one/p1"
	)
	for name, c := range map[string]struct {
		how, life, attributes string
		tokens                time.Duration
		pods                  string // account/pod, in turn
		asked                 string // of the plugin
		requested             int
	}{
		"kept for the account": {"Image", "1h", attributes("ServiceAccount", true, ""), time.Hour,
			"one/p1 one/p2 two/p3 one/p1", "a t1 map[], a t2 map[]", 2},
		"kept for the token": {"Image", "1h", attributes("Token", true, ""), time.Hour,
			"one/p1 one/p2 one/p1", "a t1 map[], a t2 map[]", 2},
		"a token that ends": {"Image", "1h", attributes("Token", true, ""), 0, "one/p1 one/p1",
			"a t1 map[], a t2 map[]", 2},
		"not kept, but the token is": {"Image", "0s", attributes("ServiceAccount", true, ""), time.Hour,
			"one/p1 one/p1", "a t1 map[], a t1 map[]", 1},
		"annotations": {"Image", "1h", attributes("ServiceAccount", true, must), time.Hour,
			"one/p1 two/p2", "a t1 map[may:of-1 need:of-1]", 1},
		"no account where one must be": {"Image", "1h", attributes("ServiceAccount", true, ""), time.Hour, "/p1", "",
			0},
		"no account": {"Image", "1h", attributes("ServiceAccount", false, ""), time.Hour,
			"/p1 one/p1 /p2", "a, a t1 map[]", 1},
		"an account that is not there": {"Image", "1h", attributes("ServiceAccount", false, ""), time.Hour, "three/p1",
			"", 0},
		"the registry's, by account": {"Registry/1h", "0s", attributes("ServiceAccount", true, ""), time.Hour, one,
			"a t1 map[], a t2 map[]", 2},
		"everybody's, by account": {"Global/1h", "0s", attributes("ServiceAccount", true, ""), time.Hour, one,
			"a t1 map[], a t2 map[]", 2},
	} {
		p, file := providersWith(t, c.how, c.life, c.attributes)
		world := &cluster{has: map[string]v1.ServiceAccount{"one": account("1", "need", "may", "other"),
			"two": account("2")}, life: c.tokens}
		p.Accounts = world
		for _, who := range strings.Fields(c.pods) {
			sa, pod, _ := strings.Cut(who, "/")
			found := p.Logins(t.Context(), image, Pod{"n", pod, types.UID("u-" + pod), sa})
			for _, f := range found {
				if by := fmt.Sprint(f.Account); (sa == "") != (f.Account == nil) ||
					sa != "" && by != fmt.Sprintf("&{%s n %s}", world.has[sa].UID, sa) {
					t.Errorf("%s: pod %s has logins of %s", name, who, by)
				}
			}
		}

		data, _ := os.ReadFile(file)
		if got := strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(string(data)), "registry.example.com/", ""),
			"\n", ", "); got != c.asked {
			t.Errorf("%s: the plugin was asked %q, want %q", name, got, c.asked)
		}
		if len(world.tokens) != c.requested || c.requested > 0 && world.tokens[0] != "n/one 1 [reg] Pod p1 u-p1" {
			t.Errorf("%s: tokens requested: %q", name, world.tokens)
		}
	}
}

// TestAccountMadeAnew: an account of the same name with another UID gets nothing of what is known of the old one.
func TestAccountMadeAnew(t *testing.T) {
	p, _ := providersWith(t, "Image", "1h", attributes("ServiceAccount", true, ""))
	world := &cluster{has: map[string]v1.ServiceAccount{"one": account("1")}, life: time.Hour}
	p.Accounts = world
	who := Pod{"n", "p", "u", "one"}
	p.Logins(t.Context(), image, who)
	world.has["one"] = account("9")
	if found := p.Logins(t.Context(), image, who); len(found) != 1 || found[0].Account.UID != "9" ||
		len(world.tokens) != 2 {
		t.Errorf("%+v, tokens %q", found, world.tokens)
	}
}

// TestNoToken: a plugin that would need a token is not asked if no token can be had, and gives no logins. A plugin
// that returns the token as its password is refused, unless its cacheType is Token.
func TestNoToken(t *testing.T) {
	who := Pod{"n", "p", "u", "one"}
	refused, file := providersWith(t, "Image", "1h", attributes("ServiceAccount", true, ""))
	refused.Accounts = &cluster{has: map[string]v1.ServiceAccount{"one": account("1")}, fails: errors.New("forbidden")}
	standalone, _ := providersWith(t, "Image", "1h", attributes("ServiceAccount", true, ""))
	for name, p := range map[string]*Providers{"refused": refused, "no API server": standalone} {
		if found := p.Logins(t.Context(), image, who); len(found) != 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the plugin was asked without a token")
	}

	for cache, want := range map[string]int{"ServiceAccount": 0, "Token": 1} {
		p, _ := providersWith(t, "echo", "1h", attributes(cache, true, ""))
		p.Accounts = &cluster{has: map[string]v1.ServiceAccount{"one": account("1")}, life: time.Hour}
		if found := p.Logins(t.Context(), image, who); len(found) != want {
			t.Errorf("the token as password, kept for the %s: %+v", cache, found)
		}
	}
}
