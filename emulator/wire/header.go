package wire

import (
	"fmt"
	"strings"

	"porthole.dev/porthole/emulator/hnsd"
)

//go:generate go test . -run TestHeader -update

// Header returns emulator/dll/ops.h: the numbers of this protocol for the DLLs.
func Header() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	line(
		"/* The numbers of the protocol between the DLLs and hnsd. Generated from emulator/wire: go generate ./emulator/wire */")
	line("#ifndef PORTHOLE_OPS_H")
	line("#define PORTHOLE_OPS_H")
	line("")
	line("#define HNSD_PORT %d", Port)
	line("#define SCM_PORT %d", SCMPort)
	line("#define HCSD_PORT %d", HCSPort)
	line("#define MARK_SOCKET %q", MarkSocket)
	line("#define MARK_MS %d", MarkMillis)
	line("#define MAX_FRAME %du", MaxFrame)
	line("#define NULL_TEXT 0x%xu", uint32(noText))
	line("")
	line("/* An operation on an object is the kind's plus the function's. */")
	line("enum {")
	for k := range hnsd.Kinds {
		line("\tOP_%s = %d,", strings.ToUpper(k.String()), On(k, 0))
	}
	line("};")
	line("")
	line("enum {")
	for f := range functions {
		line("\tFN_%s = %d,", strings.ToUpper(f.String()), f)
	}
	line("};")
	line("")
	line("enum {")
	for _, op := range []struct {
		name string
		op   Op
	}{{"HNSCALL", HNSCall}, {"ROUTE", Route}, {"EVENTS", Events}, {"NOTIFY", Notify}, {"ADDRESS",
		Address}, {"INTERFACE", Interface}, {"FIREWALL", Firewall}, {"ADAPTERS", Adapters}, {"HELLO", Hello},
		{"SCM", SCM}, {"SCM_DISPATCH", SCMDispatch}, {"SCM_DONE", SCMDone}, {"HCS", HCS}, {"HCS_NOTIFY", HCSNotify},
		{"HCS_STREAM", HCSStream}} {
		line("\tOP_%s = %d,", op.name, op.op)
	}
	line("};")
	line("")
	line("#define FLAG_FORWARDING %d", FlagForwarding)
	line("")
	line("/* What a service is told. */")
	line("enum { SCM_START = %d, SCM_CONTROL = %d, SCM_END = %d };", SCMStart, SCMControl, SCMEnd)
	line("")
	line("/* What a program is answered when hnsd cannot be reached, and when it goes away during a call. */")
	line("#define RPC_SERVER_UNAVAILABLE ((HRESULT)0x%08xL)", hnsd.ErrServerUnavailable.Code)
	line("#define RPC_CALL_FAILED ((HRESULT)0x%08xL)", hnsd.ErrCallFailed.Code)
	line("")
	line("#define HCS_DRAIN %d", HCSDrain)
	line("#define SERVICE_DISCONNECT 0x%08x /* HcnNotificationServiceDisconnect */", ServiceDisconnect)
	line("")
	line("#endif")
	return b.String()
}
