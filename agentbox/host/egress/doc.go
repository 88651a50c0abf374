// Package egress decides what boxes may reach. It composes the policy of each box, applies changes
// to running boxes, and keeps track of secrets and where they may be sent. It enforces nothing
// itself: the gateway in the box's supervisor does.
//
// A policy has layers, each with its source, so that a verdict can say whose rule it was: the
// organisation's, which bounds all others; the user's, for one project and for all; the
// repository's, as far as it was approved; and the machine's, which are the registries and code
// hosts that the preset "balanced" allows. A box's Subject, which host makes from its record,
// determines its layers.
//
// A change is in force in every running box when the call that made it returns. A box that cannot
// be notified is stopped (Notify). Values of secrets pass through only on their way to the keyring, or
// to a machine that runs a task to which one is lent.
// A supervisor is told where to get values, and the values of variables in a caller's environment,
// which are kept in memory only.
//
// Boxes and machines are small interfaces here (Boxes, Box, Machine), so that the package is tested
// without either.
package egress
