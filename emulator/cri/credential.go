package cri

import "encoding/json"

// domainKey is where nltest of an emulated host (emulator/dll/nltest.c) looks for the domain that a container is joined to. Windows has
// it from HCS, which is given the credential spec.
const domainKey = `System\CurrentControlSet\Services\Netlogon\Parameters`

// domainOf is the DNS name of the domain that a credential spec names, or empty. The layout is that of Microsoft's
// CredentialSpec module, which the kubelet passes on as it is.
func domainOf(credentialSpec string) string {
	var spec struct {
		DomainJoinConfig struct{ DnsName string }
	}
	if json.Unmarshal([]byte(credentialSpec), &spec) != nil {
		return ""
	}
	return spec.DomainJoinConfig.DnsName
}
