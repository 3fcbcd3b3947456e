package join

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"

	"porthole.dev/porthole/join/step"
)

// filled is a set of choices in which every field has a value.
func filled(t *testing.T) Choices {
	t.Helper()
	var c Choices
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		field, name := v.Field(i), v.Type().Field(i).Name
		switch field.Interface().(type) {
		case string:
			field.SetString("of " + name)
		case []string:
			field.Set(reflect.ValueOf([]string{"of " + name}))
		case map[string]string:
			field.Set(reflect.ValueOf(map[string]string{"A": "of " + name}))
		case []int:
			field.Set(reflect.ValueOf([]int{9182}))
		case bool:
			field.SetBool(true)
		default:
			t.Fatalf("%s is a %s, of which this test knows no value", name, field.Type())
		}
	}
	c.PatchesDir, c.BGPConfig = "/etc/patches", "/etc/bgp.yaml"
	return c
}

// TestChoicesAreRemembered: the journal gives a later run every choice, with full paths.
func TestChoicesAreRemembered(t *testing.T) {
	journal := step.NewJournal("n", "")
	s := &Setup{Choices: filled(t), Pods: "10.244.0.0/16", Services: "10.96.0.0/12", Journal: &journal}
	if err := s.remember(); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := parseChoices(journal.Facts); !ok || err != nil || !reflect.DeepEqual(got, filled(t)) {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}

	s.PatchesDir = "patches"
	if err := s.remember(); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := parseChoices(journal.Facts); !filepath.IsAbs(got.PatchesDir) || s.PatchesDir != "patches" {
		t.Errorf("remembered %q, now %q", got.PatchesDir, s.PatchesDir)
	}
}

// TestJournalOfEarlierVersions: the names by which earlier versions kept the choices are read.
func TestJournalOfEarlierVersions(t *testing.T) {
	const text = `{"nodeIP":"10.0.0.7","nic":"eth0","criSocket":"/run/c.sock","network":"bgp",
		"routesArgs":["--a"],"bgpConfig":"/b.yaml","podCIDR":"10.1.0.0/16","serviceCIDR":"10.2.0.0/16","labels":"a=b",
		"taints":"c=d:NoSchedule","kubeletArgs":["--max-pods=5"],"environment":{"HTTPS_PROXY":"x"},
		"patchesDir":"/p","ignore":["Swap"],"installDir":"/usr/lib/porthole","firewallPorts":[9182],"noFirewall":true}`
	c, ok, err := parseChoices(map[string]string{factChoices: text})
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s was not read", v.Type().Field(i).Name)
		}
	}
	if _, _, err := parseChoices(map[string]string{factChoices: "{"}); err == nil {
		t.Error("a broken journal was read")
	}
	if _, ok, err := parseChoices(nil); ok || err != nil {
		t.Errorf("a journal without: %v, %v", ok, err)
	}
}

// TestOver: a run without a cluster takes what was chosen before, names the network that it was asked for, and ignores
// the checks of both.
func TestOver(t *testing.T) {
	before := filled(t)
	got := Choices{Network: "tor", Ignore: []string{"Swap"}, Labels: "now=this", InstallDir: "/opt"}.over(before)
	want := before
	want.Network, want.Ignore = "tor", []string{"Swap", "of Ignore"}
	if !reflect.DeepEqual(got, want) {
		text, _ := json.Marshal(got) // for the message alone
		t.Errorf("%s", text)
	}
	if got := (Choices{}).over(before); got.Network != before.Network {
		t.Errorf("network %q", got.Network)
	}
}
