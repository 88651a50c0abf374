// Package qemu runs machines as QEMU microvms: boot once, restore always, with memory kept as
// differences to a template. It speaks neither to the guest agent nor to the network; whoever holds
// a Machine does that over its stream.
package qemu
