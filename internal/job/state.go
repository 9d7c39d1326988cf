package job

// State is where a job stands. See the drawing in doc.go.
type State string

// The states of a job.
const (
	Scheduled State = "scheduled" // waits for its own time
	Ready     State = "ready"     // waits for a slot
	Leased    State = "leased"    // a worker holds it, with a slot
	Waiting   State = "waiting"   // waits for its next attempt
	Delivered State = "delivered"
	Dead      State = "dead"
	Unknown   State = "unknown"
	Expired   State = "expired"
	Cancelled State = "cancelled"
)

// States lists every state, in the order of the drawing.
var States = []State{Scheduled, Ready, Leased, Waiting, Delivered, Dead, Unknown, Expired, Cancelled}

// transitions holds every arrow of the drawing.
var transitions = map[State][]State{
	Scheduled: {Ready, Expired, Cancelled},
	Ready:     {Leased, Expired, Cancelled},
	Leased:    {Delivered, Waiting, Dead, Unknown, Ready},
	Waiting:   {Ready, Expired, Cancelled},
}

// Next lists the states that may follow s; none follows an end.
func (s State) Next() []State { return transitions[s] }

// Ended says whether s is an end: nothing more is sent for the job by itself.
func (s State) Ended() bool { return len(transitions[s]) == 0 }

// Live says whether a job in this state counts against the capacity of its queue.
func (s State) Live() bool { return !s.Ended() }
