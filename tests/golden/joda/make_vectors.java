import java.io.PrintStream;
import java.util.Arrays;
import java.util.Locale;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import org.joda.time.DateTimeZone;
import org.joda.time.format.DateTimeFormat;
import org.joda.time.format.DateTimeFormatter;
import org.joda.time.format.ISODateTimeFormat;

/**
 * Asks the Joda library what it prints and reads; its answers are the vectors of the tests.
 *
 * <p>mvn dependency:copy -Dartifact=joda-time:joda-time:2.12.7 -DoutputDirectory=.
 * <br>java -cp joda-time-2.12.7.jar make_vectors.java | xz -9e > vectors.tsv.xz
 *
 * <p>Lines, tab between fields: "Z zone" and "P pattern" number zones and patterns from 0;
 * "F zone pattern time text" is a time printed; "L zone local time" a local time made a moment;
 * "R text time" an ISO-8601 text read in UTC, time "-" when it is refused; "N locale zone pattern
 * time text" a time printed in a language, which is made a Locale as Confluent's sink does it.
 */
class MakeVectors {
  static final String[] ZONES = {
    "UTC", "America/New_York", "America/Los_Angeles", "America/Sao_Paulo", "America/St_Johns",
    "America/Caracas", "America/Havana", "Europe/Berlin", "Europe/London", "Europe/Dublin",
    "Africa/Johannesburg", "Asia/Tokyo", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Tehran",
    "Asia/Yangon", "Australia/Lord_Howe", "Australia/Sydney", "Pacific/Auckland", "Pacific/Apia",
    "Pacific/Chatham", "Pacific/Kiritimati", "+09:00", "-03:30", "+05:45:30", "UTC+02:00",
  };
  static final String[] PATTERNS = {
    "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", "'year'=YYYY/'month'=MM/'day'=dd",
    "yyyy-MM-dd'T'HH:mm:ss.SSSZZ", "y/M/d/H/m/s/S", "YY/yy/xx", "YYYYYY/yyyyy/xxxxx",
    "xxxx-'W'ww-e", "x/w/ee", "DDD/D", "EEE/EEEE/E/EE", "MMM/MMMM/MMMMM", "G/GG/C/CCC",
    "hh a/h aa", "KK/K/kk/k", "SS/SSSS/SSSSSS", "Z/ZZ", "'it''s' yyyy''MM", "dd.MM.yyyy, HH'h",
    "'dt='yyyyMMdd/'h='HHmm", "HH/Z",
  };
  static final String[] FIXED_PATTERNS = {"z/zzzz/ZZZ/Z/ZZ"};
  static final String[] LOCALES = {
    "en", "en-US", "C", "xx", "", "de", "DE", "de_DE.UTF-8", "fr", "es", "ja", "zh", "ar", "iw", "in",
    "no", "pt_BR", "sr", "am", "he",
  };
  static final String NAMES = "G/a/E/EE/EEE/EEEE/MMM/MMMM";
  static final String MIXED = "xxxx-'W'ww-e/EEE D/hh K kk a/Z ZZ ZZZ z/zzzz";
  static final String[] TEXTS = {
    "2024", "2024-12", "2024-12-03", "2024-12-03T", "2024-12-03T10", "2024-12-03T10:11",
    "2024-12-03T10:11:12", "2024-12-03T10:11:12.5", "2024-12-03T10:11:12,123456789",
    "2024-12-03T10:11:12.1234567891", "2024-12-03T10:11:12Z", "2024-12-03t10:11:12z",
    "2024-12-03T10:11:12+01", "2024-12-03T10:11:12+0130", "2024-12-03T10:11:12+01:30",
    "2024-12-03T10:11:12+01:30:15", "2024-12-03T10:11:12-01:30:15.5", "2024-12-03TZ",
    "2024-12-03Z", "2024-12-03T+01:00", "2024-338", "2024-W49", "2024-W49-2", "2024-w49", "T10:11",
    "T10", "T10:11:12.5+02:00", "10:11", "2024-12-03 10:11:12", " 2024-12-03", "2024-12-03 ",
    "2024-1-3", "2024-12-3", "2024-12-03T1:2:3Z", "+2024-12-03", "-0044-03-15", "20241203T10",
    "24-12-03", "2024-13-01", "2024-13", "2024-00", "2024-00-01", "2024-01-00", "2024-99",
    "2023-02-29", "2024-02-29", "1900-02-29", "2000-02-29", "2024-12-03T24:00Z",
    "2024-12-03T10:60Z", "2024-12-03T10.5Z", "2024-12-03T10,25", "2024-12-03T10:11.25Z",
    "2024-12-03T10:11:12.Z", "2024-12-03T10:11:12.123 Z", "T", "TZ", "2024-366", "2023-366",
    "2024-000", "2024-W53", "2024-W00", "2020-W53-7", "2024-W01-0", "2024-W01-8", "0000-01-01",
    "0001-01-01", "-0001-12-31", "2024-12-03T10:11:12.123+25:00", "2024-12-03T10:11:60Z",
    "2024-001", "2024-1", "2024-012", "2024-12-03T10:11:12+1", "2024-12-03T10:11:12+01:3",
    "2024-12-03T10:11:12+013015", "2024-12-03T10:11:12+013015123",
    "2024-12-03T10:11:12+01:30:15.1", "2024-12-03T10:11:12GMT", "2024-12-03T10:11:12+00:00[UTC]",
    "999999999", "123456789-01-01", "2024-W5", "2024-W05-1T10Z", "2024-", "2024-12-", "2024T10",
    "2024-12T10:00Z", "2024-W49T10", "2024-338T10:00", "--12-03", "+-2024", "2024-12-03T10:",
    "2024-12-03T:11", "2024-12-03T10:11:", "2024-12-03T10:11:12.123456Z",
    "2024-12-03T10:11:12.999999999Z", "2024-12-03T10:11:12+01:60", "2024-12-03T10:11:12+24:00",
    "2024-12-03T10:11:12-00:00", "2024-12-03T10:11:12+01:30,5", "2024-12-03T10:11Z",
    "2024-12-03T10Z", "2024-12-03T10+05:30", "yesterday", "2024-12-03T10:11:12ZZ", "12/03/2024",
    "1969-12-31T23:59:59.999Z", "0099-06-01T00:00:00Z", "9999-12-31T23:59:59.999Z",
    "10000-01-01T00:00:00Z", "2024-12-03T10:11:12.1Z", "2024-12-03T10:11:12.12Z",
    "2024-12-03T10:11:12.9999Z", "2024-12-03T10:59.99999Z", "2024-12-03T23.999999999Z",
    "2024-W49-2T10:11:12.5-03:00", "2024-12-03T100:11", "2024-12-03T10:111", "2024-1234",
    "1234567890-01-01", "2024-12-031", "2024-12-03T10:11:123Z",
  };

  public static void main(String[] args) throws Exception {
    DateTimeZone.setDefault(DateTimeZone.UTC);
    Random random = new Random(4);
    PrintStream out = new PrintStream(System.out, false, "UTF-8");
    for (String zone : ZONES) {
      out.println("Z\t" + zone);
    }
    for (String pattern : PATTERNS) {
      out.println("P\t" + pattern);
    }
    for (String pattern : FIXED_PATTERNS) {
      out.println("P\t" + pattern);
    }
    for (int z = 0; z < ZONES.length; z++) {
      DateTimeZone zone = DateTimeZone.forID(ZONES[z]);
      for (int p = 0; p < PATTERNS.length + FIXED_PATTERNS.length; p++) {
        boolean fixed = p >= PATTERNS.length;
        if (fixed && !zone.isFixed()) {
          continue;
        }
        String pattern = fixed ? FIXED_PATTERNS[p - PATTERNS.length] : PATTERNS[p];
        DateTimeFormatter format =
            DateTimeFormat.forPattern(pattern).withLocale(Locale.ENGLISH).withZone(zone);
        for (int i = 0; i < 7; i++) {
          long time = pick(random, zone, i);
          out.println("F\t" + z + "\t" + p + "\t" + time + "\t" + format.print(time));
        }
      }
      for (int i = 0; i < 40; i++) {
        long local = zone.convertUTCToLocal(pick(random, zone, i)) / 900000 * 900000;
        out.println("L\t" + z + "\t" + local + "\t" + zone.convertLocalToUTC(local, false));
      }
    }
    for (String text : TEXTS) {
      String time;
      try {
        time = "" + ISODateTimeFormat.dateTimeParser().parseMillis(text);
      } catch (IllegalArgumentException refused) {
        time = "-";
      }
      out.println("R\t" + text + "\t" + time);
    }
    printNames(out, random);
    out.flush();
  }

  /** Every language once, the listed ones in every month and zone, and what every zone is called. */
  static void printNames(PrintStream out, Random random) {
    Set<String> languages = new TreeSet<>(Arrays.asList(LOCALES));
    for (Locale locale : Locale.getAvailableLocales()) {
      languages.add(locale.getLanguage());
    }
    for (String language : languages) {
      printName(out, language, "UTC", NAMES, -62200000000000L + random.nextInt(1 << 30));
      for (int i = 0; i < 12; i++) {
        printName(out, language, "UTC", NAMES, 1700000000000L + i * 2635200000L);
      }
      printName(out, language, ZONES[random.nextInt(22)], "z/zzzz", pick(random, DateTimeZone.UTC, 0));
    }
    for (String language : LOCALES) {
      for (String zone : ZONES) {
        printName(out, language, zone, MIXED, pick(random, DateTimeZone.forID(zone), 0));
      }
    }
    for (String zone : DateTimeZone.getAvailableIDs()) {
      printName(out, "en", zone, "z/ZZZ", 1705000000000L);
      printName(out, "de", zone, "z/zzzz", 1720000000000L);
    }
  }

  static void printName(PrintStream out, String locale, String zone, String pattern, long time) {
    DateTimeFormatter format =
        DateTimeFormat.forPattern(pattern)
            .withZone(DateTimeZone.forID(zone))
            .withLocale(new Locale(locale));
    String text = format.print(time);
    out.println("N\t" + locale + "\t" + zone + "\t" + pattern + "\t" + time + "\t" + text);
  }

  /** A time of 1900 to 2100: any, one close to a change of the offset, or one far outside. */
  static long pick(Random random, DateTimeZone zone, int kind) {
    long from = -2208988800000L;
    long until = 4102444800000L;
    // What the tz database says of the time before 1980 is still being corrected.
    boolean old = kind % 7 == 6 && (zone.isFixed() || zone.getID().startsWith("America/N"));
    if (!old) {
      from = 315532800000L;
    }
    long time = from + (long) (random.nextDouble() * (until - from));
    if (kind % 7 == 5 && random.nextInt(4) == 0) {
      return time * 1000;
    }
    if (kind % 2 == 1) {
      long next = zone.nextTransition(time);
      return next == time || next > until ? time : next + random.nextInt(4 * 3600000) - 7200000;
    }
    return time;
  }
}
