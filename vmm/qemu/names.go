package qemu

// Every name that this driver puts on disk. A changed meaning changes
// formatVersion.
const (
	// In a machine's own directory (vmm.Spec.Dir).
	runtimeFile     = "runtime.img"   // the runtime layer: raw, sparse, ext4
	placeholderFile = "workspace.img" // an empty slot, for a machine without a workspace

	// In a template and in a saved state. Each .pages file has an .index beside it (see
	// pageset.go).
	devicesFile      = "devices"       // device state as QEMU writes it
	memoryFile       = "memory"        // template: all pages that are not zero; saved state: those that differ
	templateDiskFile = "runtime"       // template: the blocks of the runtime layer that are not zero
	savedRuntimeFile = "runtime.img"   // saved state with disks
	savedSpaceFile   = "workspace.img" // saved state with disks
	pagesSuffix      = ".pages"
	indexSuffix      = ".index"

	// In a kernel directory (vmm.Spec.Kernel).
	kernelFile = "vmlinuz"
	initrdFile = "initrd"

	// In Config.StateDir.
	memoFile = "qemu-memo.json"
)
