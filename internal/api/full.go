package api

import (
	"fmt"

	"tundish/internal/destination"
	"tundish/internal/queue"
)

// refusalDetail says in words why the store took no job.
func refusalDetail(c *destination.Contract, r queue.PushResult) string {
	switch r.Verdict {
	case queue.Conflict:
		if r.ID == "" {
			return "the key belongs to another request"
		}
		return "the key belongs to job " + string(r.ID) + ", which is another request"
	case queue.Paused:
		return "the destination is paused and its contract refuses jobs meanwhile"
	}
	text := fmt.Sprintf("the queue holds %d of %d jobs", r.Depth, r.Capacity)
	switch r.Verdict {
	case queue.BytesFull:
		text += fmt.Sprintf(", and of the %s for their bytes too little is free for this one", destination.FormatSize(c.Queue.MaxBytes))
	case queue.ShareFull:
		text += ", and the tenant has its share of what is free"
	}
	if r.RetryAfter == pausedRetryAfter { // see there
		text += "; the destination is paused and sends nothing, so nobody knows when there is room, and Retry-After is a guess"
	}
	return text
}
