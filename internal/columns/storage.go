package columns

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

var volumes = kind{
	names: []string{
		"Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass", "VolumeAttributesClass",
		"Reason", "Age", "+VolumeMode",
	},
	cells: func(o object, now time.Time) []any {
		claim := ""
		if ref := o.child("spec", "claimRef"); ref != nil {
			claim = ref.text("namespace") + "/" + ref.text("name")
		}
		return []any{
			o.name(), o.quantity("spec", "capacity", "storage"), accessModes(o.texts("spec", "accessModes")),
			o.text("spec", "persistentVolumeReclaimPolicy"),
			phaseOrTerminating(o), claim, storageClass(o), o.scalar(unset, "spec", "volumeAttributesClassName"),
			o.text("status", "reason"), o.age(now),
			o.scalar(unset, "spec", "volumeMode"),
		}
	},
}

var claims = kind{
	names: []string{"Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass", "Age",
		"+VolumeMode"},
	cells: func(o object, now time.Time) []any {
		volume, capacity, modes := o.text("spec", "volumeName"), "", ""
		if volume != "" {
			capacity, modes = o.quantity("status", "capacity", "storage"), accessModes(o.texts("status", "accessModes"))
		}
		return []any{
			o.name(), phaseOrTerminating(o), volume, capacity, modes, storageClass(o),
			o.scalar(unset, "spec", "volumeAttributesClassName"), o.age(now),
			o.scalar(unset, "spec", "volumeMode"),
		}
	},
}

func phaseOrTerminating(o object) string {
	if o.deleted() {
		return "Terminating"
	}
	return o.text("status", "phase")
}

func accessModes(modes []string) string {
	var short []string
	for _, known := range []struct{ mode, short string }{
		{"ReadWriteOnce", "RWO"}, {"ReadOnlyMany", "ROX"}, {"ReadWriteMany", "RWX"}, {"ReadWriteOncePod", "RWOP"},
	} {
		for _, m := range modes {
			if m == known.mode {
				short = append(short, known.short)
				break
			}
		}
	}
	return strings.Join(short, ",")
}

func storageClass(o object) string {
	if class, ok := o.annotation("volume.beta.kubernetes.io/storage-class"); ok {
		return class
	}
	return o.text("spec", "storageClassName")
}

var storageClasses = kind{
	names: []string{"Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"},
	cells: func(o object, now time.Time) []any {
		name := nameOrDefault(o, "storageclass.kubernetes.io/is-default-class",
			"storageclass.beta.kubernetes.io/is-default-class")
		return []any{
			name, o.text("provisioner"), o.scalar("Delete", "reclaimPolicy"), o.scalar("Immediate", "volumeBindingMode"),
			o.flag("allowVolumeExpansion"), o.age(now),
		}
	},
}

var volumeAttributesClasses = kind{
	names: []string{"Name", "DriverName", "Age"},
	cells: func(o object, now time.Time) []any { return []any{o.name(), o.text("driverName"), o.age(now)} },
}

var volumeAttachments = kind{
	names: []string{"Name", "Attacher:name", "PV", "Node", "Attached:boolean", "Age"},
	cells: func(o object, now time.Time) []any {
		return []any{
			o.name(), o.text("spec", "attacher"), o.text("spec", "source", "persistentVolumeName"), o.text("spec", "nodeName"),
			o.flag("status", "attached"), o.age(now),
		}
	},
}

var csiNodes = kind{
	names: []string{"Name", "Drivers:integer", "Age"},
	cells: func(o object, now time.Time) []any {
		return []any{o.name(), int64(o.size("spec", "drivers")), o.age(now)}
	},
}

var csiDrivers = kind{
	names: []string{
		"Name", "AttachRequired:boolean", "PodInfoOnMount:boolean", "StorageCapacity:boolean", "TokenRequests",
		"RequiresRepublish:boolean", "Modes", "Age",
	},
	cells: func(o object, now time.Time) []any {
		tokens := unset
		if o.has("spec", "tokenRequests") {
			var audiences []string
			for _, t := range o.list("spec", "tokenRequests") {
				audiences = append(audiences, t.text("audience"))
			}
			tokens = strings.Join(audiences, ",")
		}
		attach := !o.has("spec", "attachRequired") || o.flag("spec", "attachRequired")
		return []any{
			o.name(), attach, o.flag("spec", "podInfoOnMount"), o.flag("spec", "storageCapacity"), tokens,
			o.flag("spec", "requiresRepublish"), or(strings.Join(o.texts("spec", "volumeLifecycleModes"), ","), none),
			o.age(now),
		}
	},
}

var resourceClaims = kind{
	names: []string{"Name", "State", "Age"},
	cells: func(o object, now time.Time) []any {
		var states []string
		if o.deleted() {
			states = append(states, "deleted")
		}
		switch {
		case !o.has("status", "allocation") && !o.deleted():
			states = append(states, "pending")
		case o.has("status", "allocation"):
			states = append(states, "allocated")
			if o.size("status", "reservedFor") > 0 {
				states = append(states, "reserved")
			}
		}
		return []any{o.name(), strings.Join(states, ","), o.age(now)}
	},
}

var resourceSlices = kind{
	names: []string{"Name", "Node", "Driver", "Pool", "Age"},
	cells: func(o object, now time.Time) []any {
		s := o.child("spec")
		return []any{o.name(), s.text("nodeName"), s.text("driver"), s.text("pool", "name"), o.age(now)}
	},
}

var deviceTaints = kind{
	names: []string{"Name", "Key", "Value", "Effect", "TimeAdded", "Age"},
	cells: func(o object, now time.Time) []any {
		t, added := o.child("spec", "taint"), ""
		if t.has("timeAdded") {
			added = Age(now, t.time("timeAdded"))
		}
		return []any{o.name(), t.text("key"), t.text("value"), t.text("effect"), added, o.age(now)}
	},
}

var poolStatusRequests = kind{
	names: []string{
		"Name", "Driver", "Total", "Available", "Allocated", "Unavailable", "Errors", "Pools:integer", "Status", "Completed",
	},
	cells: func(o object, now time.Time) []any {
		cells := []any{o.name(), o.text("spec", "driver")}
		status, end := poolStatus(o)
		if !o.has("status") || status == "Failed" {
			cells = append(cells, "-", "-", "-", "-", "-")
		} else {
			cells = append(cells, devices(o)...)
		}
		pools, completed := o.number("status", "poolCount"), none
		if status == "Complete" {
			completed = Age(now, end)
			if sent := o.size("status", "pools"); pools > int64(sent) {
				status = fmt.Sprintf("Complete (%d/%d pools)", sent, pools)
			}
		}
		return append(cells, pools, status, completed)
	},
}

// poolStatus returns the status of a resource pool status request, and the time of its first final condition.
func poolStatus(o object) (status string, end time.Time) {
	for _, c := range o.list("status", "conditions") {
		switch kind := c.text("type"); kind {
		case "Complete", "Failed":
			if c.text("status") == "True" {
				return kind, c.time("lastTransitionTime")
			}
		}
	}
	return "Pending", time.Time{}
}

func devices(o object) []any {
	var sums [4]int64
	errs := 0
	for _, p := range o.list("status", "pools") {
		for i, field := range []string{"totalDevices", "availableDevices", "allocatedDevices", "unavailableDevices"} {
			sums[i] += p.number(field)
		}
		if p.has("validationError") {
			errs++
		}
	}
	var cells []any
	for _, n := range sums {
		cells = append(cells, strconv.FormatInt(n, 10))
	}
	return append(cells, strconv.Itoa(errs))
}
