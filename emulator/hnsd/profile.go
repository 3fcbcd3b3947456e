package hnsd

import (
	"fmt"
	"strings"
)

// Version of HNS, as GET /globals/version gives it. Every feature is announced by it.
type Version struct{ Major, Minor uint32 }

// AtLeast compares versions.
func (v Version) AtLeast(major, minor uint32) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// within reports whether v is of the line major.minor up to the next major: features back-ported to an older line.
func (v Version) within(major, minor uint32) bool { return v.Major == major && v.Minor >= minor }

// number is the form of a version in documents: the major part in the upper 32 bits.
func (v Version) number() uint64 { return uint64(v.Major)<<32 | uint64(v.Minor) }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Profile is one HNS: its version and what differs between versions or is only inferred.
type Profile struct {
	Name    string
	Version Version
	// FrontendConflict is the answer to a load balancer whose frontend another one owns.
	FrontendConflict *Error
	// UnknownNetwork is the answer to opening a network that does not exist (unverified, no. 33).
	UnknownNetwork *Error
	// V1Success makes failing v1 calls succeed with {"Success":false}, as older builds do.
	V1Success bool
	// UniqueNames refuses a second network of one name in v1 calls (seen in moby/moby#40345).
	UniqueNames bool
	// UniqueRemotes refuses a second remote endpoint with one address (inferred for newer builds).
	UniqueRemotes bool
	// HostListeners refuses a node port, or a frontend on the node's own address, on which a process of the host
	// listens. kubernetes/kubernetes#137530 names builds of Server 2019; newer ones are taken not to
	// (unverified, no. 37).
	HostListeners bool
	// OnePortOwner takes a port of the host for one load balancer only, regardless of its address: one without an
	// address, or with port flag 2. Windows has HCN_E_PORT_ALREADY_EXISTS for it; whether it does so is
	// unverified, no. 10.
	OnePortOwner bool
	// TextFilters writes ids in upper case and compares the ids of filters with them as texts. Windows writes most ids
	// in upper case, and no document says how its filters compare (unverified, no. 14).
	TextFilters bool
	// UniqueSubnets refuses a network whose subnets overlap with each other or with another network's, as hns/hnstest
	// does. Neither a document nor a report says what L2Bridge networks are answered (unverified, no. 66).
	UniqueSubnets bool
	// NoHostNamespace: a new host has no namespace of its own until a program makes one (microsoft/SDN `hns.v2.psm1`
	// and hcsshim `ncproxy` do). Whether there is one before is unverified, no. 5.
	NoHostNamespace bool
	// OtherForm reads the gateway of a subnet back as 0.0.0.0. No document says that HNS reads networks back as they
	// were given (unverified, no. 17).
	OtherForm bool
	// HostDefaultRoute gives the host a default route by its endpoint even if the endpoint has one to 0.0.0.0
	// (unverified, no. 9). Without it the host gets one only by an endpoint that has a gateway
	// (flannel-io/flannel#1763).
	HostDefaultRoute bool
	// LosesRoutes: when a virtual switch takes a network card over, persistent routes of the card are lost as others
	// are. Antrea saves and restores all of them (antrea-io/antrea pkg/agent/agent_windows.go); what Windows does by
	// itself is unverified, no. 85. Without it the routes that programs of the host made are lost.
	LosesRoutes bool
}

// profiles of HNS. Those without a build lie between the builds that can be run, or are earlier revisions of one.
// The profiles with a build come first, oldest first. Most variants are ws2022 with one behaviour
// changed, so that a test can tell which one a program depends on.
var profiles = []struct {
	build int
	Profile
}{
	{17763, Profile{Name: "ws2019", Version: Version{9, 5}, FrontendConflict: ErrPortAlreadyExists,
		UnknownNetwork: ErrElementNotFound, HostListeners: true}},
	{20348, Profile{Name: "ws2022", Version: Version{13, 3}, FrontendConflict: ErrAlreadyExists,
		UnknownNetwork: ErrElementNotFound}},
	{26100, Profile{Name: "ws2025", Version: Version{15, 5}, FrontendConflict: ErrAlreadyExists,
		UnknownNetwork: ErrElementNotFound, UniqueRemotes: true}},
	{0, Profile{Name: "ws2019-old", Version: Version{9, 2}, FrontendConflict: ErrPortAlreadyExists,
		UnknownNetwork: ErrElementNotFound, HostListeners: true}},
	{0, Profile{Name: "win-19041", Version: Version{11, 10}, FrontendConflict: ErrPortAlreadyExists,
		UnknownNetwork: ErrElementNotFound}},
	{0, Profile{Name: "ws-15.0", Version: Version{15, 0}, FrontendConflict: ErrAlreadyExists,
		UnknownNetwork: ErrElementNotFound}},
	{0, Profile{Name: "ws2025-pre", Version: Version{15, 4}, FrontendConflict: ErrAlreadyExists,
		UnknownNetwork: ErrElementNotFound, UniqueRemotes: true}},
	{0, Profile{Name: "ws2022-oneport", Version: Version{13, 3}, FrontendConflict: ErrAlreadyExists,
		UnknownNetwork: ErrElementNotFound, OnePortOwner: true}},
	{0, Profile{Name: "ws2022-textids", Version: Version{13, 3}, FrontendConflict: ErrAlreadyExists,
		UnknownNetwork: ErrElementNotFound, TextFilters: true}},
	{0, Profile{Name: "ws2022-subnets", Version: Version{13, 3}, FrontendConflict: ErrAlreadyExists,
		UnknownNetwork: ErrElementNotFound, UniqueSubnets: true}},
	{0, Profile{Name: "ws2022-fresh", Version: Version{13, 3}, FrontendConflict: ErrAlreadyExists,
		UnknownNetwork: ErrElementNotFound, NoHostNamespace: true}},
	{0, Profile{Name: "ws2022-form", Version: Version{13, 3}, FrontendConflict: ErrAlreadyExists,
		UnknownNetwork: ErrElementNotFound, OtherForm: true}},
	{0, Profile{Name: "ws2022-unkind", Version: Version{13, 3}, FrontendConflict: ErrAlreadyExists,
		UnknownNetwork: ErrElementNotFound, NoHostNamespace: true, OtherForm: true, HostDefaultRoute: true,
		LosesRoutes: true}},
	{0, Profile{Name: "ws2022-routes", Version: Version{13, 3}, FrontendConflict: ErrAlreadyExists,
		UnknownNetwork: ErrElementNotFound, LosesRoutes: true}},
}

// ProfileOf gives the profile of a Windows build.
func ProfileOf(build int) (Profile, error) {
	for _, p := range profiles {
		if p.build == build && build != 0 {
			return p.Profile, nil
		}
	}
	return Profile{}, fmt.Errorf("no HNS profile for Windows build %d", build)
}

// ProfileNamed gives a profile by its name.
func ProfileNamed(name string) (Profile, error) {
	for _, p := range profiles {
		if p.Name == name {
			return p.Profile, nil
		}
	}
	return Profile{}, fmt.Errorf("no HNS profile %q: there are %s", name, strings.Join(ProfileNames(), ", "))
}

// ProfileNames lists all profiles.
func ProfileNames() (names []string) {
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	return names
}

// String says what the HNS of a profile does in one line.
func (p Profile) String() string {
	text := fmt.Sprintf("%s: HNS %s", p.Name, p.Version)
	for _, differs := range []struct {
		on   bool
		what string
	}{
		{p.V1Success, "calls of the first interface succeed with an error inside"},
		{p.UniqueNames, "network names are unique"},
		{p.UniqueRemotes, "a second remote endpoint with one address is refused"},
		{p.HostListeners, "ports on which a program of the host listens are refused"},
		{p.OnePortOwner, "a port of the host belongs to one load balancer"},
		{p.TextFilters, "filters compare ids as texts, in upper case"},
		{p.UniqueSubnets, "overlapping subnets are refused"},
		{p.NoHostNamespace, "a new host has no namespace"},
		{p.OtherForm, "gateways read back as 0.0.0.0"},
		{p.HostDefaultRoute, "the host's endpoint always brings a default route"},
		{p.LosesRoutes, "a network card that a switch takes over loses persistent routes too"},
	} {
		if differs.on {
			text += ", " + differs.what
		}
	}
	return text
}

// ProfileTexts says what each profile is, a line for each.
func ProfileTexts() (texts []string) {
	for _, p := range profiles {
		texts = append(texts, p.String())
	}
	return texts
}

// supports reports whether this version knows a policy type. Types that every version knows are not listed.
// The versions are those of hcsshim's hcn/hcnglobals.go.
func (p Profile) supports(policy string) bool {
	v := p.Version
	switch policy {
	case "RemoteSubnetRoute", "HostRoute":
		return v.AtLeast(9, 2)
	case "L4Proxy":
		return v.within(9, 5) || v.within(10, 5) || v.within(11, 11) || v.within(12, 1) || v.AtLeast(13, 1)
	case "VxlanPort":
		return v.AtLeast(10, 3)
	case "SetPolicy":
		return v.AtLeast(13, 0)
	case "L4WFPPROXY":
		return v.AtLeast(13, 2)
	case "TierAcl":
		return v.AtLeast(14, 0)
	case "NetworkACL":
		return v.AtLeast(15, 0)
	}
	return true
}

// networkPolicies, endpointPolicies and subnetPolicies are the known types in the spelling that is given back.
var (
	networkPolicies = []string{"SourceMacAddress", "NetAdapterName", "VSwitchExtension", "DrMacAddress", "AutomaticDNS",
		"InterfaceConstraint", "ProviderAddress", "RemoteSubnetRoute", "VxlanPort", "HostRoute", "SetPolicy", "L4Proxy",
		"LayerConstraint", "NetworkACL", "OutBoundNAT"}
	endpointPolicies = []string{"PortMapping", "ACL", "QOS", "L2Driver", "OutBoundNAT", "SDNRoute", "L4Proxy",
		"L4WFPPROXY",
		"ProviderAddress", "PortName", "EncapOverhead", "InterfaceConstraint", "Encryption", "VLAN",
		"InterfaceParameters",
		"Iov", "TierAcl"}
	subnetPolicies = []string{"VLAN", "VSID"}
)
