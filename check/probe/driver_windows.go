package probe

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// extension is the service of Open vSwitch's extension of the virtual switch (openvswitch
// datapath-windows/ovsext/ovsext.inf).
const extension = `SYSTEM\CurrentControlSet\Services\OVSExt`

// driver records what this host has of that extension, and whether it takes drivers that Microsoft has not signed.
func (r *recorder) driver() {
	// Both are set by the first question, and decide whether the others are asked.
	file, installed := "", false
	_, _ = r.ask("ovs.driver", func() (string, error) {
		k, err := registry.OpenKey(registry.LOCAL_MACHINE, extension, registry.QUERY_VALUE)
		if errors.Is(err, registry.ErrNotExist) {
			return "not installed", nil
		}
		if err != nil {
			return "", err
		}
		defer k.Close()
		installed = true
		start, _, err := k.GetIntegerValue("Start")
		// Without a path Windows takes the driver's name in its usual folder.
		image, _, missing := k.GetStringValue("ImagePath")
		if missing != nil {
			image = `System32\drivers\ovsext.sys`
		}
		file = driverFile(image)
		return fmt.Sprintf("start %d, %s", start, file), err
	})
	_, _ = r.ask("boot.testsigning", func() (string, error) {
		options, err := registryText(`SYSTEM\CurrentControlSet\Control`, "SystemStartOptions")
		if errors.Is(err, registry.ErrNotExist) {
			return "not known", nil
		}
		if strings.Contains(strings.ToUpper(options), "TESTSIGNING") {
			return "on", err
		}
		return "off", err
	})

	// Every line is there in each report, so that reports can be compared.
	if !installed {
		r.value("ovs.driver.version", "not installed")
		r.value("ovs.driver.signature", "not installed")
		return
	}
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		r.value("ovs.driver.version", "no file")
		r.value("ovs.driver.signature", "no file")
		return
	}
	_, _ = r.ask("ovs.driver.version", func() (string, error) { return fileVersion(file) })
	_, _ = r.ask("ovs.driver.signature", func() (string, error) { return signature(file), nil })
}

// driverFile returns the path of a driver's file from the ImagePath of its service, which the kernel reads:
// \SystemRoot\…, \??\C:\… or a path below the folder of Windows.
func driverFile(image string) string {
	root := cmp.Or(os.Getenv("SystemRoot"), `C:\Windows`)
	if rest, ok := strings.CutPrefix(strings.ToLower(image), `\systemroot\`); ok {
		return filepath.Join(root, rest)
	}
	if rest, ok := strings.CutPrefix(image, `\??\`); ok {
		return rest
	}
	if filepath.IsAbs(image) {
		return image
	}
	return filepath.Join(root, image)
}

// fileVersion returns the version in the resources of a file.
func fileVersion(file string) (string, error) {
	size, err := windows.GetFileVersionInfoSize(file, nil)
	if err != nil {
		return "", err
	}
	data := make([]byte, size)
	if err := windows.GetFileVersionInfo(file, 0, size, unsafe.Pointer(&data[0])); err != nil {
		return "", err
	}
	var fixed *windows.VS_FIXEDFILEINFO
	length := uint32(unsafe.Sizeof(*fixed))
	if err := windows.VerQueryValue(unsafe.Pointer(&data[0]), `\`, unsafe.Pointer(&fixed), &length); err != nil {
		return "", err
	}
	high, low := fixed.FileVersionMS, fixed.FileVersionLS
	return fmt.Sprintf("%d.%d.%d.%d", high>>16, high&0xffff, low>>16, low&0xffff), nil
}

// signature returns whether Windows trusts the signature in a file. A driver can be signed by a catalog instead, which
// is not looked for.
func signature(file string) string {
	name, err := windows.UTF16PtrFromString(file)
	if err != nil {
		return err.Error()
	}
	info := windows.WinTrustFileInfo{Size: uint32(unsafe.Sizeof(windows.WinTrustFileInfo{})), FilePath: name}
	data := windows.WinTrustData{Size: uint32(unsafe.Sizeof(windows.WinTrustData{})), UIChoice: windows.WTD_UI_NONE,
		RevocationChecks: windows.WTD_REVOKE_NONE,
		UnionChoice:      windows.WTD_CHOICE_FILE, StateAction: windows.WTD_STATEACTION_VERIFY,
		FileOrCatalogOrBlobOrSgnrOrCert: unsafe.Pointer(&info)}
	err = windows.WinVerifyTrustEx(windows.InvalidHWND, &windows.WINTRUST_ACTION_GENERIC_VERIFY_V2, &data)
	data.StateAction = windows.WTD_STATEACTION_CLOSE
	_ = windows.WinVerifyTrustEx(windows.InvalidHWND, &windows.WINTRUST_ACTION_GENERIC_VERIFY_V2, &data)
	if err != nil {
		return "not trusted: " + err.Error()
	}
	return "trusted"
}
