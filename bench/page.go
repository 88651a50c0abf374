package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

// page is what the HTML report shows. Coordinates are of drawings that are 1000 wide.
type page struct {
	Report                      Report
	Height, Floor, PhasesHeight int
	Ticks                       []tick
	Strips                      []strip
	Lines                       []line
	Duration                    string
	Bars                        []bar
	BaselineName                string
	Changes                     []Change
	Courses                     []drawnCourse
	CoursesHeight               int
}

type tick struct {
	X     int
	Label string
}

// strip has the samples of one scenario.
type strip struct {
	Label        string
	Native       bool
	Top, Y, Base int
	Dots         []int
	Median       int
}

type line struct{ Class, Points string }

// bar is one step of entering.
type bar struct {
	Label             string
	X, Y, Base, Width int
}

// drawnCourse is how a scenario went, drawn in a strip of its own.
type drawnCourse struct {
	Course
	Points string
	Base   int
	First  float64
	Last   float64
}

const (
	// pageTolerance is the part of a median that may change on a page that compares.
	pageTolerance = 0.05

	stripHeight = 26
	labels      = 260 // the width of labels beside a drawing
)

// WritePage writes the report as one HTML page that needs nothing else: no script, no font, no
// network. Every text in it is escaped, since much of it is from repositories and boxes. baseline is
// an earlier report to compare with, or nil; courses are of a history.
func (r Report) WritePage(w io.Writer, baselineName string, baseline *Report, courses []Course) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"amount": formatAmount, "unit": unitName, "box": isolation, "against": comparison,
		"gib": func(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<30)) },
	}).Parse(pageText)
	if err != nil {
		return err
	}
	p := page{Report: r, BaselineName: baselineName}
	p.draw()
	p.drawCourses(courses)
	if baseline != nil {
		p.Changes = Compare(*baseline, r, pageTolerance)
	}
	return t.Execute(w, p)
}

func (p *page) draw() {
	low, high := math.Inf(1), 0.0
	for _, s := range p.Report.Scenarios {
		if s.Unit == Milliseconds && s.Min > 0 {
			low, high = min(low, s.Min), max(high, s.Max)
		}
	}
	if high > 0 {
		p.drawStrips(math.Floor(math.Log10(low)), math.Ceil(math.Log10(high)+0.001))
	}
	p.drawTimeline()
	p.drawPhases()
}

// drawStrips places each sample between two powers of ten of a millisecond. Rounded, since processors differ
// in the last bit of a logarithm.
func (p *page) drawStrips(from, to float64) {
	x := func(ms float64) int {
		return labels + int(math.Round((1000-labels-20)*(math.Log10(max(ms, math.Pow(10, from)))-from)/(to-from)))
	}
	for _, s := range p.Report.Scenarios {
		if s.Unit != Milliseconds {
			continue
		}
		top := len(p.Strips) * stripHeight
		one := strip{Label: strings.TrimSpace(s.Name + " " + isolation(s)), Native: s.Isolation == "", Top: top + 4, Y: top + stripHeight/2, Base: top + stripHeight - 6, Median: x(s.P50)}
		for _, v := range s.Samples {
			one.Dots = append(one.Dots, x(v))
		}
		p.Strips = append(p.Strips, one)
	}
	p.Floor = len(p.Strips) * stripHeight
	p.Height = p.Floor + 16
	for e := from; e <= to; e++ {
		p.Ticks = append(p.Ticks, tick{x(math.Pow(10, e)), time.Duration(math.Pow(10, e+6)).String()})
	}
}

// drawTimeline draws three lines from the bottom (nothing) to the top (all).
func (p *page) drawTimeline() {
	points := p.Report.Timeline
	if len(points) < 2 {
		return
	}
	end, cpus := points[len(points)-1].At, float64(max(p.Report.Machine.CPUs, 1))
	p.Duration = time.Duration(end * float64(time.Second)).Round(time.Second).String()
	for _, l := range []struct {
		class string
		value func(Point) float64
	}{
		{"cpu", func(t Point) float64 { return t.CPU }},
		{"stall", func(t Point) float64 { return t.Stall }},
		{"boxes", func(t Point) float64 { return t.Boxes / cpus }},
	} {
		var b strings.Builder
		for _, t := range points {
			fmt.Fprintf(&b, "%.0f,%.0f ", 1000*t.At/max(end, 0.1), 200*(1-part(l.value(t))))
		}
		p.Lines = append(p.Lines, line{l.class, b.String()})
	}
}

// drawPhases draws the steps one after the other, as they were.
func (p *page) drawPhases() {
	total := 0.0
	for _, s := range p.Report.Phases {
		total += s.Milliseconds
	}
	at := 0.0
	for i, s := range p.Report.Phases {
		scale := (1000 - labels) / max(total, 1)
		p.Bars = append(p.Bars, bar{
			Label: fmt.Sprintf("%s %.0f ms", s.Name, s.Milliseconds), X: labels + int(at*scale), Y: i * stripHeight, Base: i*stripHeight + 12, Width: max(int(s.Milliseconds*scale), 1),
		})
		at += s.Milliseconds
	}
	p.PhasesHeight = len(p.Bars)*stripHeight + 4
}

// drawCourses draws each course from its least to its largest value.
func (p *page) drawCourses(all []Course) {
	for i, c := range all {
		d := drawnCourse{Course: c, Base: i*stripHeight + 16, First: c.P50[0], Last: c.P50[len(c.P50)-1]}
		low, high := slices.Min(c.P50), slices.Max(c.P50)
		var b strings.Builder
		for n, v := range c.P50 {
			x := labels + (1000-labels-120)*n/max(len(c.P50)-1, 1)
			fmt.Fprintf(&b, "%d,%.0f ", x, float64(i*stripHeight+20)-16*level(v, low, high))
		}
		d.Points = b.String()
		p.Courses = append(p.Courses, d)
	}
	p.CoursesHeight = len(all)*stripHeight + 4
}
