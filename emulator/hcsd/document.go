package hcsd

import "encoding/json"

// Version is a version of the schema of documents.
type Version struct{ Major, Minor uint32 }

// ComputeSystem describes a system that is to be made: schema 2.1 of
// learn.microsoft.com/virtualization/api/hcs/schemareference, as far as hcsshim writes it for a container with process
// isolation. Fields that ask for something that an emulated host cannot do are known, so that they are refused by name
// (Check).
type ComputeSystem struct {
	Owner                             string          `json:",omitempty"`
	SchemaVersion                     *Version        `json:",omitempty"`
	HostingSystemId                   string          `json:",omitempty"`
	HostedSystem                      json.RawMessage `json:",omitempty"`
	Container                         *Container      `json:",omitempty"`
	VirtualMachine                    json.RawMessage `json:",omitempty"`
	ShouldTerminateOnLastHandleClosed bool            `json:",omitempty"`
}

// Container is a container with process isolation.
type Container struct {
	GuestOs                   *GuestOs          `json:",omitempty"`
	Storage                   *Storage          `json:",omitempty"`
	MappedDirectories         []MappedDirectory `json:",omitempty"`
	MappedPipes               []MappedPipe      `json:",omitempty"`
	Memory                    *Memory           `json:",omitempty"`
	Processor                 *Processor        `json:",omitempty"`
	Networking                *Networking       `json:",omitempty"`
	HvSocket                  json.RawMessage   `json:",omitempty"`
	ContainerCredentialGuard  *CredentialGuard  `json:",omitempty"`
	RegistryChanges           *RegistryChanges  `json:",omitempty"`
	AssignedDevices           []Device          `json:",omitempty"`
	AdditionalDeviceNamespace json.RawMessage   `json:",omitempty"`
}

type (
	// GuestOs is what the container hears of itself.
	GuestOs struct {
		HostName string `json:",omitempty"`
	}
	// Storage is its C:. Path is the volume of its own layer, as GetLayerMountPath gave it; Layers are those below,
	// topmost first.
	Storage struct {
		Layers []Layer         `json:",omitempty"`
		Path   string          `json:",omitempty"`
		QoS    json.RawMessage `json:",omitempty"` // limits of input and output: taken, without effect
	}
	// Layer is one read-only layer; Path is its folder on the host.
	Layer struct {
		Id       string `json:",omitempty"`
		Path     string `json:",omitempty"`
		PathType string `json:",omitempty"`
		Cache    string `json:",omitempty"`
	}
	// MappedDirectory is a folder or file of the host.
	MappedDirectory struct {
		HostPath      string `json:",omitempty"`
		HostPathType  string `json:",omitempty"`
		ContainerPath string `json:",omitempty"`
		ReadOnly      bool   `json:",omitempty"`
	}
	// MappedPipe is a named pipe of the host.
	MappedPipe struct {
		ContainerPipeName string `json:",omitempty"`
		HostPath          string `json:",omitempty"`
		HostPathType      string `json:",omitempty"`
	}
	// Device is a device of the host, or all of a class.
	Device struct {
		Type               string `json:",omitempty"` // ClassGuid
		InterfaceClassGuid string `json:",omitempty"`
		LocationPath       string `json:",omitempty"`
	}
	// Memory is the limit of all programs of the container; 0 is none.
	Memory struct {
		SizeInMB uint64 `json:",omitempty"`
	}
	// Processor limits its time on processors: Count of them, Maximum ten-thousandths of all, Weight among others. 0
	// is no limit.
	Processor struct {
		Count   int32 `json:",omitempty"`
		Maximum int32 `json:",omitempty"`
		Weight  int32 `json:",omitempty"`
	}
	// Networking names the HCN namespace whose network the container has.
	Networking struct {
		AllowUnqualifiedDnsQuery   bool     `json:",omitempty"`
		DnsSearchList              string   `json:",omitempty"` // separated by commas
		NetworkSharedContainerName string   `json:",omitempty"`
		Namespace                  string   `json:",omitempty"`
		NetworkAdapters            []string `json:",omitempty"`
	}
	// CredentialGuard is a group managed service account.
	CredentialGuard struct {
		Cookie         string `json:",omitempty"`
		RpcEndpoint    string `json:",omitempty"`
		Transport      string `json:",omitempty"`
		CredentialSpec string `json:",omitempty"`
	}
	// RegistryChanges are made to the container's registry before it starts.
	RegistryChanges struct {
		AddValues  []RegistryValue `json:",omitempty"`
		DeleteKeys []RegistryKey   `json:",omitempty"`
	}
	// RegistryValue is one value.
	RegistryValue struct {
		Key         *RegistryKey `json:",omitempty"`
		Name        string       `json:",omitempty"`
		Type        string       `json:",omitempty"`
		StringValue string       `json:",omitempty"`
		BinaryValue string       `json:",omitempty"`
		DWordValue  int32        `json:",omitempty"`
		QWordValue  int32        `json:",omitempty"`
		CustomType  int32        `json:",omitempty"`
	}
	// RegistryKey is a key below one of the hives System, Software and others.
	RegistryKey struct {
		Hive     string `json:",omitempty"`
		Name     string `json:",omitempty"`
		Volatile bool   `json:",omitempty"`
	}
)

// Process describes a process that is to be made in a system.
type Process struct {
	ApplicationName  string            `json:",omitempty"`
	CommandLine      string            `json:",omitempty"`
	CommandArgs      []string          `json:",omitempty"`
	User             string            `json:",omitempty"`
	WorkingDirectory string            `json:",omitempty"`
	Environment      map[string]string `json:",omitempty"`
	RestrictedToken  bool              `json:",omitempty"`
	EmulateConsole   bool              `json:",omitempty"`
	CreateStdInPipe  bool              `json:",omitempty"`
	CreateStdOutPipe bool              `json:",omitempty"`
	CreateStdErrPipe bool              `json:",omitempty"`
	ConsoleSize      []int32           `json:",omitempty"` // height, width; 0 is the default
	UseExistingLogin bool              `json:",omitempty"`
	UseLegacyConsole bool              `json:",omitempty"`
}

// The smaller documents of calls.
type (
	// Signal is what HcsSignalProcess sends.
	Signal struct {
		Signal string `json:",omitempty"`
	}
	// ProcessChange is what HcsModifyProcess does.
	ProcessChange struct {
		Operation   string       `json:",omitempty"`
		ConsoleSize *ConsoleSize `json:",omitempty"`
		CloseHandle *CloseHandle `json:",omitempty"`
	}
	// ConsoleSize is the size of a console in characters.
	ConsoleSize struct {
		Height uint16 `json:",omitempty"`
		Width  uint16 `json:",omitempty"`
	}
	// CloseHandle names one of the standard handles.
	CloseHandle struct {
		Handle string `json:",omitempty"`
	}
	// PropertyQuery names properties of a system, or of the service.
	PropertyQuery struct {
		PropertyTypes []string `json:",omitempty"`
	}
	// SystemQuery filters an enumeration; empty lists match everything.
	SystemQuery struct {
		IDs    []string `json:"Ids,omitempty"`
		Types  []string `json:",omitempty"`
		Names  []string `json:",omitempty"`
		Owners []string `json:",omitempty"`
	}
	// Modification is what HcsModifyComputeSystem does; Settings depend on ResourcePath.
	Modification struct {
		ResourcePath string          `json:",omitempty"`
		RequestType  string          `json:",omitempty"`
		Settings     json.RawMessage `json:",omitempty"`
		GuestRequest json.RawMessage `json:",omitempty"`
	}
)
