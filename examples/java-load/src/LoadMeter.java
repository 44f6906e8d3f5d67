/**
 * A worker's book about itself: how many messages wait, and what one takes. Any thread may call.
 *
 * <p>{@link #report} closes a page: the mean is that since the report before, and zero if nothing was processed in between.
 */
final class LoadMeter {
    private long waiting;
    private long done;
    private long spentNanos;
    private long reports;

    /** A message has come and waits. */
    synchronized void arrived() {
        waiting++;
    }

    /** A message that waited is being processed. */
    synchronized void begun() {
        waiting--;
    }

    /** A message was processed and took so long. */
    synchronized void finished(long nanos) {
        done++;
        spentNanos += nanos;
    }

    /** How many reports were taken. */
    synchronized long reports() {
        return reports;
    }

    /** What waits and the mean time in milliseconds, in the spelling of the program that the thesis evaluated. */
    synchronized String report() {
        double meanMillis = done == 0 ? 0.0 : spentNanos / 1000 / done / 1000.0;
        String json = "{\"numberOfMsgsInQueue\":" + waiting + ",\"processingTimerPerMsg\":" + meanMillis + "}";
        done = 0;
        spentNanos = 0;
        reports++;
        return json;
    }
}
