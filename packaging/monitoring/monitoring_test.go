package monitoring

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"sigs.k8s.io/yaml"
)

// promtool runs Prometheus' own checks; tools/deps installs it.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed (tools/deps)")
	}
	if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRules(t *testing.T) {
	promtool(t, "check", "rules", "rules.yaml")
	promtool(t, "test", "rules", "rules_test.yaml")
}

// TestScrape: the paths are those that kubelets pass on. Debian's promtool is built without discovery in Kubernetes
// and cannot check the rest.
func TestScrape(t *testing.T) {
	data, err := os.ReadFile("scrape.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Jobs []struct {
			Path string `json:"metrics_path"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(data, &c); err != nil || len(c.Jobs) != 2 {
		t.Fatalf("%d jobs, %v", len(c.Jobs), err)
	}
	for _, j := range c.Jobs {
		if j.Path != "/porthole/proxy/metrics" && j.Path != "/porthole/routes/metrics" {
			t.Errorf("a job asks for %s", j.Path)
		}
	}
}

// TestDashboardIsGrafanas: Grafana's own types know each field of the dashboard, and miss none.
func TestDashboardIsGrafanas(t *testing.T) {
	data, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	grafana := cog.NewRuntime()
	grafana.RegisterPanelcfgVariant(timeseries.VariantConfig())
	grafana.RegisterDataqueryVariant(prometheus.VariantConfig())
	complain := func(err error) {
		if err != nil && err.Error() != "" { // an empty list of errors is not nil there
			t.Error(err)
		}
	}

	//lint:ignore SA1019 the file has version 1 of the format, which every Grafana reads; the note advises version 2
	var d dashboard.Dashboard
	complain(d.UnmarshalJSONStrict(data))
	complain(d.Validate())

	var raw struct { // a wrong field of a query is no error above
		Panels []struct{ Targets []json.RawMessage }
	}
	if err := json.Unmarshal(data, &raw); err != nil || len(raw.Panels) < 9 || len(d.Panels) != len(raw.Panels) {
		t.Fatalf("%d and %d panels: %v", len(d.Panels), len(raw.Panels), err)
	}
	for _, p := range raw.Panels {
		for _, query := range p.Targets {
			complain(new(prometheus.Dataquery).UnmarshalJSONStrict(query))
		}
	}
}

// TestDashboard: each query is one that Prometheus understands, and asks for metrics that our programs have.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}

	known := ours(t)
	var rules []map[string]string
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			rules = append(rules, map[string]string{"record": "checked",
				"expr": strings.NewReplacer("$__rate_interval", "5m", "$node", ".*").Replace(target.Expr)})
			for _, name := range metric.FindAllString(target.Expr, -1) {
				if name = strings.TrimSuffix(name, "_bucket"); !known[name] {
					t.Errorf("panel %q asks for %s, which no program has", p.Title, name)
				}
			}
		}
	}
	if len(rules) < 9 {
		t.Fatalf("only %d queries", len(rules))
	}
	text, err := yaml.Marshal(map[string]any{"groups": []map[string]any{{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", "--lint=none", file)
}

var metric = regexp.MustCompile(`\b(porthole|kubeproxy)_\w+`)

// ours are the metrics that the sources of the service proxy and of routes name.
func ours(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, file := range []string{"../../proxy/health/metrics.go", "../../node/routes/serve.go"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metric.FindAllString(string(data), -1) {
			names[name] = true
		}
	}
	return names
}

// TestRulesAskForOurMetrics: an alert on a metric that does not exist never fires.
func TestRulesAskForOurMetrics(t *testing.T) {
	known := ours(t)
	data, err := os.ReadFile("rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range metric.FindAllString(string(data), -1) {
		if name = strings.TrimSuffix(name, "_bucket"); !known[name] {
			t.Errorf("a rule asks for %s, which no program has", name)
		}
	}
}
