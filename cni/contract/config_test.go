package contract

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func policyOf(value string) string {
	return `{"name":"n","policies":[{"name":"EndpointPolicy","value":` + value + `}]}`
}

func TestNormalise(t *testing.T) {
	for name, c := range map[string]struct{ value, want string }{
		"settings that are null, beside others": {`{"Type":"ACL","Settings":null,"Action":"Block"}`,
			`ACL {"Action":"Block"}`},
		"no settings": {`{"Type":"ACL"}`, `ACL {}`},
		"one setting in two spellings": {
			`{"Type":"OutBoundNAT","Settings":{"exceptions":["10.3.0.0/16"],"ExceptionList":["10.2.0.0/16"],"Exceptions":["10.1.0.0/16"]}}`, `OutBoundNAT {"Exceptions":["10.1.0.0/16"]}`},
		"two settings": {`{"Type":"ACL","settings":{"B":1},"Settings":{"A":1}}`,
			`ACL {"A":1,"B":1}`},
	} {
		for range 20 { // maps have no order
			got, err := Parse([]byte(policyOf(c.value)))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if text := got.Policies[0].Type + " " + string(got.Policies[0].Settings); text != c.want {
				t.Fatalf("%s: %s, want %s", name, text, c.want)
			}
		}
	}
}

// TestRefused: what HNS would take and make nonsense of is refused, with field and value. The first is a placeholder
// of published configurations that nobody filled in.
func TestRefused(t *testing.T) {
	for config, want := range map[string]string{
		policyOf(`{"Type":"ROUTE","DestinationPrefix":"<your service cidr>","NeedEncap":true}`):           `DestinationPrefix "<your service cidr>" is not a range such as 10.96.0.0/16`,
		policyOf(`{"Type":"SDNRoute","Settings":{"NeedEncap":true}}`):                                     `DestinationPrefix is missing: want a range`,
		policyOf(`{"Type":"SDNRoute","Settings":{"DestinationPrefix":"10.96.0.0"}}`):                      `DestinationPrefix "10.96.0.0" is not a range`,
		policyOf(`{"Type":"SDNRoute","Settings":{"DestinationPrefix":"10.96.0.0/12","NeedEncap":"si"}}`):  `NeedEncap "si" is not true or false`,
		policyOf(`{"Type":"SDNRoute","Settings":{"DestinationPrefix":"10.96.0.0/12","NextHop":"gw"}}`):    `NextHop "gw" is not an address`,
		policyOf(`{"Type":"OutBoundNAT","ExceptionList":["10.244.0.0/16","10.96.0.0/33"]}`):               `Exceptions "10.96.0.0/33" is not ranges`,
		policyOf(`{"Type":"OutBoundNAT","Settings":{"Exceptions":{"a":1}}}`):                              `Exceptions {"a":1} is not ranges`,
		policyOf(`{"Type":"OutBoundNAT","Settings":{"VirtualIP":"x"}}`):                                   `VirtualIP "x" is not an address`,
		policyOf(`{"Type":"PA","PA":"192.0.2"}`):                                                          `ProviderAddress "192.0.2" is not an address`,
		policyOf(`{"Type":"PA"}`):                                                                         `ProviderAddress is missing`,
		policyOf(`{"Type":"ACL","Action":"Deny"}`):                                                        `Action "Deny" is not Allow, Block or Pass`,
		policyOf(`{"Type":"ACL","Settings":{"Direction":"Both"}}`):                                        `Direction "Both" is not In or Out`,
		policyOf(`{"Type":"ACL","Settings":{"RemoteAddresses":"10.0.0.0/8,all"}}`):                        `RemoteAddresses "all" is not ranges or addresses`,
		policyOf(`{"Type":"ACL","Settings":{"RemotePorts":"80,70000"}}`):                                  `RemotePorts "70000" is not ports`,
		policyOf(`{"Type":"ACL","Settings":{"LocalPorts":"90-80"}}`):                                      `LocalPorts "90-80" is not ports`,
		policyOf(`{"Type":"ACL","Settings":{"Protocols":"7777"}}`):                                        `Protocols "7777" is not a protocol`,
		policyOf(`{"Type":"ACL","Settings":{"Priority":100000}}`):                                         `Priority "100000" is not a number from 0 to 65535`,
		policyOf(`{"Type":"PortMapping","Settings":{"InternalPort":0,"ExternalPort":80}}`):                `InternalPort "0" is not a port`,
		policyOf(`{"Type":"NAT","Settings":{"ExternalPort":80000}}`):                                      `ExternalPort "80000" is not a port`,
		policyOf(`{"Type":"QOS","Settings":{"MaximumOutgoingBandwidthInBytes":-1}}`):                      `MaximumOutgoingBandwidthInBytes "-1" is not a number`,
		policyOf(`{"Type":"L4WFPPROXY","Settings":{"OutboundProxyPort":"x"}}`):                            `OutboundProxyPort "x" is not a port`,
		policyOf(`{"Type":"EncapOverhead","Settings":{"Overhead":"much"}}`):                               `Overhead "much" is not a number`,
		policyOf(`{"Type":"OutboundNatt"}`):                                                               `Type "OutboundNatt" is none that an endpoint of HNS can have: ACL, `,
		policyOf(`{"Settings":{}}`):                                                                       `Type "" is none`,
		`{"name":"n","ipMasqNetwork":"10.244.0.0"}`:                                                       `ipMasqNetwork "10.244.0.0" is not a range`,
		`{"name":"n","additionalRoutes":[{"dst":"default","gw":"10.0.0.1"}]}`:                             `additionalRoutes[0].dst "default" is not a range`,
		`{"name":"n","additionalRoutes":[{"dst":"10.0.0.0/8","gw":"gw"}]}`:                                `additionalRoutes[0].GW "gw" is not an address`,
		`{"name":"n","dns":{"nameservers":["10.96.0.10","<dns>"]}}`:                                       `dns.nameservers[1] "<dns>" is not an address`,
		`{"name":"n","runtimeConfig":{"portMappings":[{"hostPort":80,"containerPort":0}]}}`:               `runtimeConfig.portMappings[0].containerPort 0 is not a port`,
		`{"name":"n","runtimeConfig":{"portMappings":[{"hostPort":80000,"containerPort":80}]}}`:           `runtimeConfig.portMappings[0].hostPort 80000 is not a port`,
		`{"name":"n","runtimeConfig":{"portMappings":[{"hostPort":80,"containerPort":80,"hostIP":"x"}]}}`: `runtimeConfig.portMappings[0].hostIP "x" is not an address`,
	} {
		if _, err := Parse([]byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}

		if c, err := ParseToRemove([]byte(config)); err != nil || c.Name != "n" {
			t.Errorf("%s to be removed: %v", config, err)
		}
	}
}

// TestAccepted has spellings that HNS takes.
func TestAccepted(t *testing.T) {
	for _, value := range []string{
		`{"Type":"OutBoundNAT","Settings":{"Exceptions":["10.244.0.0/16","10.0.0.1","fd00::/8"]}}`,
		`{"Type":"OutBoundNAT"}`,
		`{"Type":"SDNRoute","Settings":{"DestinationPrefix":"fd00::/64","NextHop":"","NeedEncap":false}}`,
		`{"Type":"ACL","Settings":{"Protocols":"6,17","Action":"allow","Direction":"OUT","LocalPorts":"","RemotePorts":"80,8000-8010","Priority":200,"RuleType":"Switch"}}`, `{"Type":"ACL","Protocol":6,"Action":"Block","RemotePort":443}`,
		`{"Type":"ACL","Settings":{"Protocols":"256","RemoteAddresses":"10.0.0.1, 10.1.0.0/16"}}`,
		`{"Type":"PortMapping","Settings":{"Protocol":17,"InternalPort":80,"ExternalPort":8080,"VIP":"","Flags":1}}`,
		`{"Type":"L2Driver","Settings":{}}`,
		`{"Type":"L4WFPPROXY","Settings":{"OutboundProxyPort":"15001","UserSID":"S-1-5-32-556","FilterTuple":{"Protocols":"6"}}}`, `{"Type":"iov","Settings":{"IovOffloadWeight":100}}`,
	} {
		if _, err := Parse([]byte(policyOf(value))); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// FuzzParse checks that any input gives an error or a configuration whose policies HNS can read, and the same one each
// time.
func FuzzParse(f *testing.F) {
	for _, value := range []string{`{"Type":"OutBoundNAT","ExceptionList":["10.0.0.0/8"]}`,
		`{"type":"SDNROUTE","settings":{"destinationPrefix":"10.96.0.0/16"}}`,
		`{"Type":"ACL","Settings":null,"x":1}`, `null`, `{"type":7}`} {
		f.Add([]byte(policyOf(value)))
	}
	f.Add([]byte("{\n\n,"))
	f.Add([]byte(`{"name":"n","apiVersion":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		again, err2 := Parse(data)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%v, and then %v", err, err2)
		}
		if err != nil {
			return
		}

		if diff := cmp.Diff(c, again); diff != "" {
			t.Fatalf("read twice:\n%s", diff)
		}
		if c.Name == "" || c.APIVersion < 0 || c.APIVersion > 2 {
			t.Fatalf("name %q, apiVersion %d", c.Name, c.APIVersion)
		}
		if len(c.Policies) > len(c.RawPolicies)+len(c.AdditionalArgs) {
			t.Fatalf("%d policies and %d warnings", len(c.Policies), len(c.Warnings))
		}

		for _, p := range c.Policies {
			var settings map[string]json.RawMessage
			if json.Unmarshal(p.Settings, &settings) != nil || settings == nil ||
				!bytes.HasPrefix(p.Settings, []byte("{")) {
				t.Fatalf("policy %s has the settings %s", p.Type, p.Settings)
			}
			for key := range settings {
				if k := strings.ToLower(key); p.Type == "OutBoundNAT" && settingNames[k] != "" &&
					settingNames[k] != key {
					t.Fatalf("the setting %s of %s kept its old name", key, p.Type)
				}
			}
		}
	})
}
