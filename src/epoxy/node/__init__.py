"""One datacenter's replica at work: messages become transactions, flows are driven to their end."""
