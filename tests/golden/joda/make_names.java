import java.io.PrintStream;
import java.text.DateFormatSymbols;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.joda.time.DateTimeZone;

/**
 * Writes the names that Joda takes from a JDK 17: of eras, days, months and time zones.
 *
 * <p>mvn dependency:copy -Dartifact=joda-time:joda-time:2.12.7 -DoutputDirectory=.
 * <br>java -cp joda-time-2.12.7.jar make_names.java \
 *     | xz -9e > ../../../src/kafkeep/partition/joda_names.tsv.xz
 *
 * <p>Lines, tab between fields; the first line is the language "", which stands for every locale
 * that Java has no names for. "L id zone" is an id that Joda takes for another zone. "G id,id,..."
 * numbers groups of zones that have the same names in every language, from 0. "W language" has 2
 * eras, 2 halves of the day, 7 days from Monday on, their short names, 12 months, their short
 * names. "Z language group" has the name of a zone, its short name, and both in summer, or
 * nothing; a group that a language has no line for has the names of the language "".
 */
class MakeNames {
  public static void main(String[] args) throws Exception {
    PrintStream out = new PrintStream(System.out, false, "UTF-8");
    Set<String> languages = new TreeSet<>();
    for (Locale locale : Locale.getAvailableLocales()) {
      languages.add(locale.getLanguage());
    }
    Map<String, List<String>> all = new TreeMap<>();
    int before = 0;
    for (String language : languages) {
      for (String[] zone : DateFormatSymbols.getInstance(new Locale(language)).getZoneStrings()) {
        List<String> names = all.computeIfAbsent(zone[0], id -> new ArrayList<>());
        if (names.size() <= before) {
          pad(names, before);
          names.add(String.join("\t", Arrays.asList(zone).subList(1, 5)));
        }
      }
      before++;
    }
    for (List<String> names : all.values()) {
      pad(names, before);
    }
    Map<List<String>, List<String>> groups = new LinkedHashMap<>();
    for (String id : DateTimeZone.getAvailableIDs()) {
      String zone = DateTimeZone.forID(id).getID();
      if (!zone.equals(id)) {
        out.println("L\t" + id + "\t" + zone);
      } else if (all.containsKey(id)) {
        groups.computeIfAbsent(all.get(id), names -> new ArrayList<>()).add(id);
      }
    }
    for (List<String> ids : groups.values()) {
      out.println("G\t" + String.join(",", ids));
    }
    int number = 0;
    for (String language : languages) {
      out.println("W\t" + language + "\t" + String.join("\t", words(new Locale(language))));
      int group = 0;
      for (List<String> names : groups.keySet()) {
        if (number == 0 || !names.get(number).equals(names.get(0))) {
          out.println("Z\t" + language + "\t" + group + "\t" + names.get(number));
        }
        group++;
      }
      number++;
    }
    out.flush();
  }

  /** A language that does not name a zone has no names for it. */
  static void pad(List<String> names, int length) {
    while (names.size() < length) {
      names.add("");
    }
  }

  static List<String> words(Locale locale) {
    DateFormatSymbols symbols = DateFormatSymbols.getInstance(locale);
    List<String> words = new ArrayList<>(Arrays.asList(symbols.getEras()));
    words.addAll(Arrays.asList(symbols.getAmPmStrings()));
    for (String[] days : new String[][] {symbols.getWeekdays(), symbols.getShortWeekdays()}) {
      // Java's weeks begin with Sunday, at 1.
      List<String> week = new ArrayList<>(Arrays.asList(days).subList(1, 8));
      Collections.rotate(week, -1);
      words.addAll(week);
    }
    words.addAll(Arrays.asList(symbols.getMonths()).subList(0, 12));
    words.addAll(Arrays.asList(symbols.getShortMonths()).subList(0, 12));
    return words;
  }
}
