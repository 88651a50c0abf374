// Package conversation filters what boxes hand over of an agent's conversations, and keeps it as an
// archive that is never unpacked on this machine. What a box wrote is untrusted: names, types,
// sizes and counts are bounded here, and only plain files get through. It knows no boxes.
//
// Merge is all there is. agentbox/host/conversations calls it with what a box has now and what was kept
// before, and gives the result to the next box of the same project and agent. So one box's data
// reaches another box, never this host. That is also why names that could be credentials are left
// out.
package conversation
