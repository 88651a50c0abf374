// Package history judges what boxes hand over of an agent's conversations, and keeps it as an
// archive that is never unpacked on this machine. What a box wrote is data: names, kinds, sizes and
// numbers are held to bounds here, and nothing but plain files gets through. It knows no boxes.
//
// Merge is all there is: agentbox/host/recall calls it with what a box has now and what was kept
// before, and gives the result to the next box of the same project and agent. So one box's word
// reaches another box, never this host: that is why names that could be credentials are left out,
// too.
package history
